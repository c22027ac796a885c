// Tests decode cycles with a verifier whose KV cache is full, and sequences that are preempted.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/orchestrator/cycle/decode_cycle_fixture.h"

namespace bastion {
namespace {

using ::bastion::testing::ToyText;

class FullCacheTest : public DecodeCycleTest {
 protected:
  // Two pages for each of two sequences, but not three for one of them.
  FullCacheTest() { verifier_.kv_tokens = 4 * testing::kToyPage; }

  // Steps `sequence` until it is starved.
  void StepUntilStarved(DecodeSequence& sequence) {
    while (!sequence.starved()) {
      ASSERT_TRUE(cycle_.Step({&sequence}).ok());
      ASSERT_FALSE(sequence.done());
    }
  }
};

TEST_F(FullCacheTest, FreeKvTokensAreThoseOfTheLastReply) {
  DecodeCycle cycle(*verifier_.Info(), &drafter_, &verifier_, &costs_, &clock_);
  EXPECT_EQ(cycle.free_kv_tokens(), 4 * testing::kToyPage);
  DecodeSequence sequence = Make(1, "ar");
  cycle.Open(sequence);
  EXPECT_EQ(cycle.free_kv_tokens(), 4 * testing::kToyPage);
  EXPECT_FALSE(cycle.Prefill(sequence, 100));
  EXPECT_EQ(cycle.free_kv_tokens(), 3 * testing::kToyPage);
}

TEST_F(FullCacheTest, AStarvedSequenceContinuesWhenPagesAreFree) {
  DecodeSequence first = Make(1, "fixed:16"), second = Make(2, "fixed:16", {1.0f, 7});
  Begin(first);
  Begin(second);
  StepUntilStarved(first);
  EXPECT_TRUE(absl::IsResourceExhausted(first.starvation()));
  EXPECT_TRUE(first.status().ok());
  StepUntilStarved(second);
  cycle_.Close(second, drafter_);
  while (first.output().size() < 40) {
    ASSERT_TRUE(cycle_.Step({&first}).ok());
    ASSERT_FALSE(first.starved());
  }
  const std::vector<TokenId> text = ToyText(kPrompt, {}, kTokens);
  EXPECT_TRUE(std::equal(first.output().begin(), first.output().end(), text.begin()));
}

TEST_F(FullCacheTest, PrefillOfAStarvedSequenceFailsIt) {
  DecodeSequence first = Make(1, "ar"), second = Make(2, "ar");
  verifier_.kv_tokens = testing::kToyPage;
  Begin(first);
  cycle_.Open(second);
  EXPECT_FALSE(cycle_.Prefill(second, 100));
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
}

TEST_F(FullCacheTest, AStarvedPromptIsNotFailedByAStep) {
  DecodeSequence first = Make(1, "ar"), second = Make(2, "ar");
  verifier_.kv_tokens = testing::kToyPage;
  Begin(first);
  cycle_.Open(second);
  ASSERT_TRUE(cycle_.Step({&first}, {{&second, 4}}).ok());
  EXPECT_TRUE(second.starved());
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(second.prompt_left(), 4);
  cycle_.Close(first, drafter_);
  ASSERT_TRUE(cycle_.Step({}, {{&second, 4}}).ok());
  EXPECT_FALSE(second.starved());
  EXPECT_EQ(second.prompt_left(), 0);
}

// ---- preemption ----

class PreemptionTest : public DecodeCycleTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void Preempt(DecodeSequence& sequence) {
    cycle_.Close(sequence, drafter_);
    sequence.Preempt();
    cycle_.Open(sequence);
    while (cycle_.Prefill(sequence, /*max_tokens=*/7)) {
    }
    ASSERT_TRUE(sequence.status().ok()) << sequence.status();
  }
};

TEST_P(PreemptionTest, TheTextIsTheSame) {
  uint64_t session = 1;
  for (const SamplingParams& sampling : {SamplingParams{}, SamplingParams{1.0f, 12}}) {
    DecodeSequence sequence = Make(session++, GetParam(), sampling);
    Begin(sequence);
    Preempt(sequence);  // Before its first cycle.
    for (int i = 1; !sequence.done(); ++i) {
      ASSERT_TRUE(cycle_.Step({&sequence}).ok());
      if (i % 3 == 0 && !sequence.done()) Preempt(sequence);
    }
    EXPECT_EQ(sequence.output(), ToyText(kPrompt, sampling, kTokens));
  }
}

// The trees depend on everything that the policy and its prior have learned. The prior must not see
// a token twice.
TEST_P(PreemptionTest, TheTreesAreTheSame) {
  std::vector<std::vector<DraftTree>> trees;
  for (const bool preempts : {false, true}) {
    CostModel costs = *CostModel::Fit(*verifier_.Info(), testing::LinearTable());
    SharedLearning memory;
    DecodeRequest request;
    request.id = {preempts ? uint64_t{1} : uint64_t{2}, 0};
    // A text that repeats, so that the prior has something to say.
    std::vector<TokenId> prompt;
    for (int i = 0; i < 24; ++i) prompt.push_back(i % 6);
    request.prompt = std::move(prompt);
    request.max_tokens = kTokens;
    DecodeSequence sequence(
        std::move(request),
        Policy::Parse(GetParam())->NewRequest(/*greedy=*/true, &costs, &memory));
    cycle_.Open(sequence);
    while (cycle_.Prefill(sequence, 100)) {
    }
    trees.emplace_back();
    for (int i = 0; !sequence.done(); ++i) {
      if (preempts && i % 4 == 2) Preempt(sequence);
      ASSERT_TRUE(cycle_.Step({&sequence}).ok());
      trees.back().push_back(verifier_.last_forest.at(0).tree);
    }
  }
  EXPECT_EQ(trees[0], trees[1]);
}

INSTANTIATE_TEST_SUITE_P(Policies, PreemptionTest,
                         ::testing::Values("ar", "chain", "fixed:16", "ngram:6",
                                           "fixed:16+coupled+prior"));

}  // namespace
}  // namespace bastion
