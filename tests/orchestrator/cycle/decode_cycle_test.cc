#include "orchestrator/cycle/decode_cycle.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/cycle/guarded_drafter.h"
#include "tests/orchestrator/cycle/decode_cycle_fixture.h"

namespace bastion {
namespace {

using ::bastion::testing::FakeDrafter;
using ::bastion::testing::kToyVocabulary;
using ::bastion::testing::ToyText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPolicies[] = {"ar",           "chain",     "chain:3",
                                     "beam:3x4",     "fixed:16",  "fixed:1",
                                     "eagle:3,4,16", "specblock", "specblock:literal,n=16",
                                     "bastion",      "adaptive"};

TEST_F(DecodeCycleTest, EveryPolicyGeneratesTheTextOfPlainDecoding) {
  uint64_t session = 1;
  for (const SamplingParams& sampling : {SamplingParams{}, SamplingParams{1.0f, 12}}) {
    for (const char* policy : kPolicies) {
      DecodeSequence sequence = Make(session++, policy, sampling);
      Run(sequence);
      EXPECT_EQ(sequence.output(), ToyText(kPrompt, sampling, kTokens)) << policy;
      EXPECT_EQ(sequence.reason(), FinishReason::kLength);
    }
  }
}

TEST_F(DecodeCycleTest, SpeculationCommitsMoreThanOneTokenPerCycle) {
  DecodeSequence plain = Make(1, "ar"), tree = Make(2, "fixed:16"), chain = Make(3, "chain");
  for (DecodeSequence* sequence : {&plain, &tree, &chain}) Run(*sequence);
  EXPECT_EQ(plain.cycles().size(), static_cast<size_t>(kTokens));
  EXPECT_LT(chain.cycles().size(), plain.cycles().size() * 2 / 3);
  EXPECT_LT(tree.cycles().size(), chain.cycles().size());
  EXPECT_TRUE(std::all_of(tree.cycles().begin(), tree.cycles().end(),
                          [](const CycleRecord& cycle) { return cycle.drafted; }));
}

TEST_F(DecodeCycleTest, APerfectDrafterIsAcceptedToTheEndOfItsChain) {
  drafter_.percent_right = 100;
  DecodeSequence sequence = Make(1, "chain");
  Begin(sequence);
  ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  EXPECT_EQ(sequence.cycles()[0].nodes, FakeDrafter::kPositions);
  EXPECT_EQ(sequence.cycles()[0].accepted, FakeDrafter::kPositions);
  EXPECT_EQ(sequence.cycles()[0].committed_length, FakeDrafter::kPositions + 1);
}

TEST_F(DecodeCycleTest, AcceptsTheLongestPathThatMatchesTheText) {
  const std::vector<TokenId> text = ToyText(kPrompt, {}, kTokens + 20);
  DecodeSequence sequence = Make(1, "fixed:16");
  Begin(sequence);
  size_t generated = 0;
  while (!sequence.done()) {
    ASSERT_TRUE(cycle_.Step({&sequence}).ok());
    // Find the longest path of the verified tree that matches the text.
    const DraftTree& tree = verifier_.last_forest[0].tree;
    std::vector<bool> matches(tree.rows(), false);
    matches[0] = true;
    int longest = 0;
    for (NodeIndex i = 1; i < tree.rows(); ++i) {
      matches[i] =
          matches[tree.parent(i)] && tree.token(i) == text[generated + size_t(tree.depth(i)) - 1];
      if (matches[i]) longest = std::max(longest, tree.depth(i));
    }
    ASSERT_EQ(sequence.cycles().back().accepted, longest);
    generated += static_cast<size_t>(longest) + 1;
  }
}

TEST_F(DecodeCycleTest, ABatchGeneratesTheTextOfEachSequence) {
  DecodeSequence greedy = Make(1, "fixed:16"), sampled = Make(2, "chain", {1.0f, 5}),
                 plain = Make(3, "ar", {1.0f, 6});
  Batch all = {&greedy, &sampled, &plain};
  for (DecodeSequence* sequence : all) Begin(*sequence);
  for (;;) {
    Batch live;
    for (DecodeSequence* sequence : all) {
      if (!sequence->done()) live.push_back(sequence);
    }
    if (live.empty()) break;
    ASSERT_TRUE(cycle_.Step(live).ok());
  }
  EXPECT_EQ(greedy.output(), ToyText(kPrompt, {}, kTokens));
  EXPECT_EQ(sampled.output(), ToyText(kPrompt, {1.0f, 5}, kTokens));
  EXPECT_EQ(plain.output(), ToyText(kPrompt, {1.0f, 6}, kTokens));
  for (const Frontier& frontier : drafter_.frontiers) EXPECT_NE(frontier.sequence.session, 3u);
}

TEST_F(DecodeCycleTest, AFailingDrafterFallsBackToPlainDecoding) {
  drafter_.call_error = absl::DeadlineExceededError("late");
  DecodeSequence sequence = Make(1, "fixed:16");
  Run(sequence);
  EXPECT_EQ(sequence.output(), ToyText(kPrompt, {}, kTokens));
  EXPECT_EQ(sequence.cycles().size(), static_cast<size_t>(kTokens));
  EXPECT_EQ(sequence.cycles()[0].reason, BudgetReason::kNoDraft);
  EXPECT_TRUE(absl::IsDeadlineExceeded(cycle_.draft_status()));
}

TEST_F(DecodeCycleTest, ADrafterThatRecoversIsUsedAgain) {
  DecodeSequence sequence = Make(1, "fixed:16");
  Begin(sequence);
  drafter_.call_error = absl::UnavailableError("killed");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  drafter_.call_error.reset();
  while (!sequence.done()) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  EXPECT_EQ(sequence.output(), ToyText(kPrompt, {}, kTokens));
  EXPECT_LT(sequence.cycles().size(), static_cast<size_t>(kTokens) / 2);
  EXPECT_TRUE(cycle_.draft_status().ok());
}

TEST_F(DecodeCycleTest, InvalidMarginalsCountAsNoDraft) {
  drafter_.sends_invalid_marginals = true;
  DecodeSequence sequence = Make(1, "fixed:16");
  Run(sequence);
  EXPECT_EQ(sequence.output(), ToyText(kPrompt, {}, kTokens));
  EXPECT_TRUE(absl::IsInvalidArgument(cycle_.draft_status()));
  for (const CycleRecord& cycle : sequence.cycles()) EXPECT_EQ(cycle.nodes, 0);
}

TEST_F(DecodeCycleTest, AnAcceptanceThatIsNotAPathFailsTheSequence) {
  uint64_t session = 1;
  for (const std::vector<NodeIndex>& path :
       std::vector<std::vector<NodeIndex>>{{1000}, {-1}, {0}, {1, 1}}) {
    DecodeSequence sequence = Make(session++, "fixed:16");
    Begin(sequence);
    verifier_.forced_acceptance = Acceptance{path, 1};
    ASSERT_TRUE(cycle_.Step({&sequence}).ok());
    EXPECT_TRUE(absl::IsInternal(sequence.status())) << path[0] << ": " << sequence.status();
  }
}

TEST_F(DecodeCycleTest, ANextTokenOutsideTheVocabularyFailsTheSequence) {
  DecodeSequence sequence = Make(1, "ar");
  Begin(sequence);
  verifier_.forced_acceptance = Acceptance{{}, kToyVocabulary};
  ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  EXPECT_TRUE(absl::IsInternal(sequence.status())) << sequence.status();
}

TEST_F(DecodeCycleTest, LogprobsThatDoNotMatchTheTokensFailTheSequence) {
  const TokenLogprobs good = {-1, {{1, -1}}}, outside = {-1, {{kToyVocabulary, -1}}};
  uint64_t session = 1;
  for (const std::vector<TokenLogprobs>& logprobs :
       std::vector<std::vector<TokenLogprobs>>{{}, {good, good}, {outside}}) {
    SamplingParams sampling;
    sampling.logprobs = 1;
    DecodeSequence sequence = Make(session++, "ar", sampling);
    Begin(sequence);
    verifier_.forced_acceptance = Acceptance{{}, 1, logprobs};
    ASSERT_TRUE(cycle_.Step({&sequence}).ok());
    EXPECT_TRUE(absl::IsInternal(sequence.status())) << logprobs.size();
  }
}

TEST_F(DecodeCycleTest, ASequenceUnknownToTheVerifierFailsAlone) {
  DecodeSequence lost = Make(1, "fixed:4"), kept = Make(2, "fixed:4");
  Begin(lost);
  Begin(kept);
  verifier_.Close(lost.id());
  ASSERT_TRUE(cycle_.Step({&lost, &kept}).ok());
  EXPECT_TRUE(absl::IsNotFound(lost.status()));
  EXPECT_TRUE(kept.status().ok());
  EXPECT_FALSE(kept.output().empty());
}

TEST_F(DecodeCycleTest, StepReturnsTheErrorOfAnUnavailableVerifier) {
  DecodeSequence sequence = Make(1, "fixed:4");
  Begin(sequence);
  verifier_.call_error = absl::UnavailableError("gone");
  EXPECT_TRUE(absl::IsUnavailable(cycle_.Step({&sequence})));
  EXPECT_TRUE(sequence.output().empty());
}

TEST_F(DecodeCycleTest, OpenAndPrefillErrorsFailTheSequence) {
  DecodeSequence first = Make(1, "ar"), twin = Make(1, "ar"), broken = Make(2, "ar");
  Begin(first);
  cycle_.Open(twin);
  EXPECT_TRUE(absl::IsAlreadyExists(twin.status()));
  cycle_.Open(broken);
  verifier_.call_error = absl::UnavailableError("gone");
  EXPECT_FALSE(cycle_.Prefill(broken, 2));
  EXPECT_TRUE(absl::IsUnavailable(broken.status()));
}

TEST_F(DecodeCycleTest, CloseFreesTheSequenceAtVerifierAndDrafter) {
  DecodeSequence speculative = Make(1, "fixed:4"), plain = Make(2, "ar");
  Begin(speculative);
  Begin(plain);
  cycle_.Close(speculative, drafter_);
  cycle_.Close(plain, drafter_);
  EXPECT_EQ(verifier_.live_sequences(), 0);
  EXPECT_THAT(drafter_.closed, ElementsAre(speculative.id()));  // The drafter never saw `plain`.
}

TEST_F(DecodeCycleTest, TreesShareTheRowsOfOneForward) {
  std::vector<DecodeSequence> sequences;
  for (uint64_t s = 1; s <= 4; ++s) sequences.push_back(Make(s, "fixed:200"));
  Batch batch;
  for (DecodeSequence& sequence : sequences) {
    Begin(sequence);
    batch.push_back(&sequence);
  }
  ASSERT_TRUE(cycle_.Step(batch).ok());
  for (const VerifyItem& item : verifier_.last_forest) {
    EXPECT_EQ(item.tree.rows(), testing::kToyRows / 4);
  }
  EXPECT_EQ(sequences[0].cycles()[0].reason, BudgetReason::kShare);
}

// ---- prompts beside trees ----

TEST_F(DecodeCycleTest, PromptsAreCommittedBesideTrees) {
  DecodeSequence decoding = Make(1, "fixed:16"), waiting = Make(2, "chain");
  Begin(decoding);
  cycle_.Open(waiting);
  for (const int left : {3, 1, 0}) {
    ASSERT_TRUE(cycle_.Step({&decoding}, {{&waiting, left == 3 ? 1 : 2}}).ok());
    EXPECT_EQ(waiting.prompt_left(), left);
    EXPECT_EQ(verifier_.last_forest.size(), 1u);
    EXPECT_EQ(verifier_.last_prompts.size(), 1u);
  }
  while (!decoding.done() || !waiting.done()) {
    Batch live;
    for (DecodeSequence* sequence : {&decoding, &waiting}) {
      if (!sequence->done()) live.push_back(sequence);
    }
    ASSERT_TRUE(cycle_.Step(live).ok());
  }
  EXPECT_EQ(decoding.output(), ToyText(kPrompt, {}, kTokens));
  EXPECT_EQ(waiting.output(), ToyText(kPrompt, {}, kTokens));
}

TEST_F(DecodeCycleTest, SequencesShareTheTimeOfACycleByRows) {
  DecodeCycle cycle(*verifier_.Info(), &drafter_, &verifier_, &costs_, &Clock::Real());
  DecodeSequence tree = Make(1, "fixed:14"), plain = Make(2, "ar"), waiting = Make(3, "ar");
  Begin(tree);
  Begin(plain);
  cycle_.Open(waiting);
  ASSERT_TRUE(cycle.Step({&tree, &plain}, {{&waiting, 4}}).ok());
  const CycleRecord& record = tree.cycles()[0];
  EXPECT_EQ(record.rows, 15 + 1 + 4);
  EXPECT_NEAR(record.share, 15 / 20.0, 1e-9);
  EXPECT_NEAR(plain.cycles()[0].share, 1 / 20.0, 1e-9);
  ASSERT_GT(record.stages.total(), absl::ZeroDuration());
  EXPECT_NEAR(absl::FDivDuration(waiting.prefill_time(), record.stages.total()), 4 / 20.0, 1e-3);
}

TEST_F(DecodeCycleTest, PromptsAreShortenedToTheRowsBesideTheRoots) {
  DecodeSequence decoding = Make(1, "fixed:16");
  Begin(decoding);
  std::vector<DecodeSequence> waiting;
  for (const uint64_t session : {2, 3}) {
    DecodeRequest request;
    request.id = {session, 0};
    request.prompt = std::vector<TokenId>(200, 5);
    request.max_tokens = 1;
    waiting.emplace_back(std::move(request),
                         Policy::Parse("ar")->NewRequest(/*greedy=*/true, &costs_, &memory_));
    cycle_.Open(waiting.back());
  }
  ASSERT_TRUE(cycle_.Step({&decoding}, {{&waiting[0], 500}, {&waiting[1], 500}}).ok());
  EXPECT_EQ(waiting[0].prompt_left(), 0);
  EXPECT_EQ(waiting[1].committed(), testing::kToyRows - 1 - 199);
  EXPECT_EQ(decoding.cycles()[0].nodes, 0);
  EXPECT_EQ(decoding.cycles()[0].rows, testing::kToyRows);
  // Trees get the rows that the prompts leave.
  ASSERT_TRUE(cycle_.Step({&decoding}, {{&waiting[1], 100}}).ok());
  EXPECT_EQ(decoding.cycles()[1].nodes, 16);
}

TEST_F(DecodeCycleTest, AnErrorOfOnePromptFailsItsSequenceAlone) {
  DecodeSequence decoding = Make(1, "ar"), lost = Make(2, "ar"), waiting = Make(3, "ar");
  Begin(decoding);
  cycle_.Open(waiting);  // `lost` is not open.
  ASSERT_TRUE(cycle_.Step({&decoding}, {{&lost, 4}, {&waiting, 4}}).ok());
  EXPECT_TRUE(absl::IsNotFound(lost.status())) << lost.status();
  EXPECT_EQ(decoding.output().size(), 1u);
  EXPECT_EQ(waiting.prompt_left(), 0);
}

TEST_F(DecodeCycleTest, TheCostModelLearnsFromPureCallsOnly) {
  DecodeSequence decoding = Make(1, "ar"), waiting = Make(2, "ar");
  Begin(decoding);
  cycle_.Open(waiting);
  const VerifySize one_row = {.rows = 1, .context = 4};
  const absl::Duration before = costs_.PredictVerify(one_row, false);
  ASSERT_TRUE(cycle_.Step({&decoding}, {{&waiting, 4}}).ok());
  EXPECT_EQ(costs_.PredictVerify(one_row, false), before);
  ASSERT_TRUE(cycle_.Step({&decoding}).ok());
  EXPECT_NE(costs_.PredictVerify(one_row, false), before);
}

// A drafter whose calls take a millisecond, or almost nothing while it lacks the context.
class TimedDrafter final : public Drafter {
 public:
  TimedDrafter(Drafter* inner, testing::ManualClock* clock) : inner_(inner), clock_(clock) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    clock_->Advance(is_behind ? absl::Microseconds(1) : absl::Milliseconds(1));
    absl::StatusOr<DraftResult> result = inner_->Expand(frontiers);
    if (!is_behind || !result.ok()) return result;
    for (Draft& draft : result->drafts) {
      for (Marginals& marginals : draft.marginals) marginals = {};
    }
    return result;
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

  bool is_behind = true;

 private:
  Drafter* const inner_;
  testing::ManualClock* const clock_;
};

TEST_F(DecodeCycleTest, ADrafterThatLacksTheContextDoesNotMakeDraftsLookCheap) {
  TimedDrafter drafter(&drafter_, &clock_);
  DecodeCycle cycle(*verifier_.Info(), &drafter, &verifier_, &costs_, &clock_);
  DecodeSequence sequence = Make(1, "fixed:4");
  cycle.Open(sequence);
  while (cycle.Prefill(sequence, /*max_tokens=*/2)) {
  }
  const absl::Duration before = costs_.draft().Predict(1);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(cycle.Step({&sequence}).ok());
  EXPECT_EQ(costs_.draft().Predict(1), before);
  drafter.is_behind = false;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(cycle.Step({&sequence}).ok());
  EXPECT_NE(costs_.draft().Predict(1), before);
}

TEST_F(DecodeCycleTest, AGuardedDrafterWithAnotherVocabularyReceivesNoFrontiers) {
  drafter_.vocabulary = 3;
  GuardedDrafter guarded(&drafter_, kToyVocabulary, &clock_);
  DecodeCycle cycle(*verifier_.Info(), &guarded, &verifier_, &costs_, &clock_);
  DecodeSequence sequence = Make(1, "fixed:16");
  Begin(sequence);
  while (!sequence.done()) ASSERT_TRUE(cycle.Step({&sequence}).ok());
  EXPECT_EQ(sequence.output(), ToyText(kPrompt, {}, kTokens));
  EXPECT_TRUE(drafter_.frontiers.empty());
  EXPECT_THAT(cycle.draft_status().message(), HasSubstr("vocabulary"));
}

}  // namespace
}  // namespace bastion
