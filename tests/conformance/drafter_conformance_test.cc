// Tests the contract of Drafter (common/stages/stages.h) for every kind of drafter.
#include <gtest/gtest.h>

#include "tests/conformance/stages_under_test.h"

namespace bastion {
namespace {

const std::vector<TokenId> kPrompt = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38};
constexpr int kCandidates = 8;

// The orchestrator's state of one sequence.
struct Live {
  SequenceId id;
  Position committed = 0;
  TokenId root = 0;
  std::vector<TokenId> new_tokens;  // Committed tokens that the drafter has not received.
};

class DrafterConformanceTest : public ::testing::TestWithParam<testing::StagesKind> {
 protected:
  void SetUp() override {
    stages_ = GetParam().make();
    const auto info = drafter().Info();
    ASSERT_TRUE(info.ok()) << info.status();
    info_ = *info;
  }
  void TearDown() override {
    for (const SequenceId id : opened_) {
      drafter().Close(id);
      verifier().Close(id);
    }
  }

  Verifier& verifier() { return stages_->verifier(); }
  Drafter& drafter() { return stages_->drafter(); }

  Live Begin() {
    static uint64_t next_session = 100000;
    Live live = {{next_session++, 3},
                 static_cast<Position>(kPrompt.size()) - 1,
                 kPrompt.back(),
                 {kPrompt.begin(), kPrompt.end() - 1}};
    EXPECT_TRUE(verifier().Open(live.id, {}).ok());
    opened_.push_back(live.id);
    EXPECT_TRUE(verifier().Prefill({live.id, 0, live.new_tokens}).ok());
    return live;
  }
  static Frontier NextFrontier(Live& live) {
    Frontier frontier;
    frontier.sequence = live.id;
    frontier.committed = live.committed;
    frontier.root = live.root;
    frontier.new_tokens = std::exchange(live.new_tokens, {});
    frontier.candidates = kCandidates;
    return frontier;
  }
  Marginals Draft(Live& live) {
    const auto result = drafter().Expand({NextFrontier(live)});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->drafts.at(0).marginals.at(0) : Marginals();
  }
  // Verifies the top-1 chain of `marginals` and applies the outcome to `live`.
  void Step(Live& live, const Marginals& marginals) {
    DraftTree tree(live.root);
    for (int p = 0; p < marginals.positions; ++p) {
      tree.Add(NodeIndex::Of(p), marginals.token(p, 0), -1);
    }
    const auto result = verifier().Verify({{live.id, live.committed, tree}}, {});
    ASSERT_TRUE(result.ok()) << result.status();
    const Acceptance& acceptance = result->outcomes.at(0).acceptance;
    live.new_tokens.push_back(live.root);
    for (const NodeIndex node : acceptance.path) live.new_tokens.push_back(tree.token(node));
    live.committed += acceptance.committed_length();
    live.root = acceptance.next;
  }
  void ExpectValidDraft(const Marginals& marginals) {
    EXPECT_EQ(marginals.positions, info_.positions);
    EXPECT_GE(marginals.candidates, kCandidates);
    EXPECT_TRUE(marginals.Validate(info_.vocabulary).ok()) << marginals.Validate(info_.vocabulary);
  }
  // Compares drafts of one sequence from calls with different rows. They are equal if the kernels
  // are row invariant, else equal within rounding.
  void ExpectSameDraft(const Marginals& actual, const Marginals& expected) {
    if (GetParam().row_invariant) {
      EXPECT_EQ(actual, expected);
      return;
    }
    EXPECT_EQ(actual.tokens, expected.tokens);
    ASSERT_EQ(actual.log_probs.size(), expected.log_probs.size());
    for (size_t i = 0; i < actual.log_probs.size(); ++i) {
      EXPECT_NEAR(actual.log_probs[i], expected.log_probs[i], 1e-4) << "at " << i;
    }
  }

  std::unique_ptr<testing::StagesUnderTest> stages_;
  DrafterInfo info_;
  std::vector<SequenceId> opened_;
};

TEST_P(DrafterConformanceTest, InfoIsComplete) {
  EXPECT_FALSE(info_.model.empty());
  EXPECT_GT(info_.positions, 0);
  EXPECT_GT(info_.max_context, 0);
  EXPECT_EQ(info_.vocabulary, verifier().Info()->dims.vocabulary);
}

TEST_P(DrafterConformanceTest, MarginalsAreValidInEveryCycle) {
  Live live = Begin();
  for (int cycle = 0; cycle < 5; ++cycle) {
    const Marginals marginals = Draft(live);
    ExpectValidDraft(marginals);
    Step(live, marginals);
  }
}

TEST_P(DrafterConformanceTest, ReturnsOneDraftPerFrontierInOrder) {
  Live first = Begin(), second = Begin();
  Step(second, {});
  const Marginals alone_first = Draft(first), alone_second = Draft(second);
  ASSERT_NE(alone_first, alone_second);
  const auto result = drafter().Expand({NextFrontier(second), NextFrontier(first)});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->drafts.size(), 2u);
  ExpectSameDraft(result->drafts[0].marginals.at(0), alone_second);
  ExpectSameDraft(result->drafts[1].marginals.at(0), alone_first);
}

TEST_P(DrafterConformanceTest, TheTraceCountsTheDrafts) {
  Live first = Begin(), second = Begin();
  const auto result = drafter().Expand({NextFrontier(second), NextFrontier(first)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trace.drafts, 2);
}

TEST_P(DrafterConformanceTest, NoFrontiersGiveNoDrafts) {
  const auto result = drafter().Expand({});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->drafts.empty());
}

TEST_P(DrafterConformanceTest, ASequenceMayStartDraftingLate) {
  Live followed = Begin(), late = Begin();
  for (int cycle = 0; cycle < 4; ++cycle) {
    const Marginals marginals = Draft(followed);
    Step(followed, marginals);
    Step(late, marginals);  // The same text, without a draft request.
  }
  ASSERT_EQ(late.committed, followed.committed);
  const Marginals marginals = Draft(late);
  ExpectValidDraft(marginals);
  ExpectSameDraft(marginals, Draft(followed));
}

TEST_P(DrafterConformanceTest, APromptCommittedInMixedCallsGetsTheSameDraft) {
  Live alone = Begin(), decoding = Begin();
  const Marginals expected = Draft(alone);
  Live mixed = alone;
  mixed.id = {alone.id.session + 1000, 0};
  mixed.new_tokens = {kPrompt.begin(), kPrompt.end() - 1};
  ASSERT_TRUE(verifier().Open(mixed.id, {}).ok());
  opened_.push_back(mixed.id);
  Position committed = 0;
  for (const int chunk : {2, 1, 6}) {
    const auto first = kPrompt.begin() + committed;
    const auto result =
        verifier().Verify({{decoding.id, decoding.committed, DraftTree(decoding.root)}},
                          {{mixed.id, committed, {first, first + chunk}}});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->outcomes.at(0).status.ok()) << result->outcomes[0].status;
    ASSERT_TRUE(result->prompts.at(0).ok()) << result->prompts[0];
    ++decoding.committed;
    decoding.root = result->outcomes[0].acceptance.next;
    committed += chunk;
  }
  ExpectSameDraft(Draft(mixed), expected);
}

TEST_P(DrafterConformanceTest, OnlyTheRootGetsMarginalsWithoutExpandsNodes) {
  if (info_.expands_nodes) GTEST_SKIP() << "this drafter expands every node";
  Live live = Begin();
  Frontier frontier = NextFrontier(live);
  frontier.paths = {{7, 8}, {}, {9}};
  const auto result = drafter().Expand({frontier});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->drafts.at(0).marginals.size(), 3u);
  EXPECT_TRUE(result->drafts[0].marginals[0].empty());
  ExpectValidDraft(result->drafts[0].marginals[1]);
  EXPECT_TRUE(result->drafts[0].marginals[2].empty());
}

// In whatever rounds nodes are expanded, a node must get the draft of the same tokens as committed
// text, or that of the same path alone if nodes read states.
class ExpandedNodesTest : public DrafterConformanceTest {
 protected:
  void SetUp() override {
    DrafterConformanceTest::SetUp();
    if (!info_.expands_nodes) GTEST_SKIP() << "this drafter expands only the root";
  }
  std::vector<Marginals> Expand(Live& live, std::vector<std::vector<TokenId>> paths) {
    Frontier frontier = NextFrontier(live);
    frontier.paths = std::move(paths);
    const auto result = drafter().Expand({frontier});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return std::vector<Marginals>(frontier.paths.size());
    EXPECT_EQ(result->drafts.at(0).marginals.size(), frontier.paths.size());
    return result->drafts[0].marginals;
  }
  Marginals Expected(const std::vector<TokenId>& path) {
    Live live = GetParam().states ? Begin() : Committed(path);
    Marginals marginals = Draft(live);
    for (size_t depth = 1; GetParam().states && depth <= path.size(); ++depth) {
      marginals = Expand(live, {{path.begin(), path.begin() + depth}})[0];
    }
    drafter().Close(live.id);
    verifier().Close(live.id);
    return marginals;
  }
  // The prompt's text and `path` as committed tokens.
  Live Committed(const std::vector<TokenId>& path) {
    std::vector<TokenId> text = kPrompt;
    text.insert(text.end(), path.begin(), path.end());
    static uint64_t next_session = 200000;
    Live live = {{next_session++, 0},
                 static_cast<Position>(text.size()) - 1,
                 text.back(),
                 {text.begin(), text.end() - 1}};
    EXPECT_TRUE(verifier().Open(live.id, {}).ok());
    EXPECT_TRUE(verifier().Prefill({live.id, 0, live.new_tokens}).ok());
    return live;
  }
};

TEST_P(ExpandedNodesTest, ANodeGetsTheDraftOfItsPathAlone) {
  Live live = Begin();
  ExpectValidDraft(Expand(live, {{}})[0]);
  const std::vector<std::vector<std::vector<TokenId>>> rounds = {
      {{7}, {9}, {11}}, {{7, 8}, {9, 8}, {9, 7}}, {{9, 7, 30}, {7, 8, 31}}, {{9, 7, 30, 2}}};
  for (const auto& paths : rounds) {
    const std::vector<Marginals> marginals = Expand(live, paths);
    for (size_t i = 0; i < paths.size(); ++i) {
      ExpectValidDraft(marginals[i]);
      ExpectSameDraft(marginals[i], Expected(paths[i]));
    }
  }
}

TEST_P(ExpandedNodesTest, OneRoundMayExpandSeveralLevels) {
  Live live = Begin();
  const std::vector<std::vector<TokenId>> paths = {{}, {7, 8}, {7}, {5, 6, 4}};
  const std::vector<Marginals> marginals = Expand(live, paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    ExpectSameDraft(marginals[i], Expected(paths[i]));
  }
}

TEST_P(ExpandedNodesTest, ANodeMayBeExpandedAgain) {
  Live live = Begin();
  (void)Expand(live, {{}, {7}});
  const std::vector<Marginals> again = Expand(live, {{7}, {7, 8}});
  ExpectSameDraft(again[0], Expected({7}));
  ExpectSameDraft(again[1], Expected({7, 8}));
}

TEST_P(ExpandedNodesTest, SequencesShareARound) {
  Live first = Begin(), second = Begin();
  Step(second, {});
  (void)Expand(first, {{}});
  (void)Expand(second, {{}});
  const Marginals alone = Expand(second, {{3}})[0];
  (void)Expand(second, {{}});
  Frontier one = NextFrontier(first), other = NextFrontier(second);
  one.paths = {{7}, {9}};
  other.paths = {{3}};
  const auto result = drafter().Expand({one, other});
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectSameDraft(result->drafts.at(0).marginals.at(1), Expected({9}));
  ExpectSameDraft(result->drafts.at(1).marginals.at(0), alone);
}

TEST_P(ExpandedNodesTest, TheNextCycleForgetsTheNodes) {
  Live live = Begin();
  const Marginals root = Expand(live, {{}})[0];
  (void)Expand(live, {{7}, {7, 8}});
  Step(live, root);
  EXPECT_TRUE(Expand(live, {{7, 9}})[0].empty());  // The root of this cycle is not expanded yet.
  const Marginals next = Expand(live, {{}})[0];
  ExpectValidDraft(next);
  const std::vector<Marginals> nodes = Expand(live, {{7}});
  ExpectValidDraft(nodes[0]);
  EXPECT_NE(nodes[0], Expected({7}));
}

TEST_P(ExpandedNodesTest, ARoundOfAnUnknownSequenceGetsEmptyMarginals) {
  Live live = Begin();
  EXPECT_TRUE(Expand(live, {{7}})[0].empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExpandedNodesTest, ::testing::ValuesIn(testing::KindsUnderTest()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DrafterConformanceTest, ASequenceUnknownToTheTargetGetsEmptyMarginals) {
  if (!GetParam().features) {
    GTEST_SKIP() << "this drafter reads tokens, not the target's features";
  }
  Live unknown = {{4711, 0}, 5, 1, {1, 2, 3, 4, 5}};
  opened_.push_back(unknown.id);
  Live known = Begin();
  const auto result = drafter().Expand({NextFrontier(unknown), NextFrontier(known)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->drafts[0].marginals.at(0).empty());
  ExpectValidDraft(result->drafts[1].marginals.at(0));
}

TEST_P(DrafterConformanceTest, TheVocabularyLimitsTheNumberOfCandidates) {
  Live live = Begin();
  Frontier frontier = NextFrontier(live);
  frontier.candidates = 10 * info_.vocabulary;
  const auto result = drafter().Expand({frontier});
  ASSERT_TRUE(result.ok()) << result.status();
  const Marginals& marginals = result->drafts.at(0).marginals.at(0);
  EXPECT_TRUE(marginals.Validate(info_.vocabulary).ok());
  EXPECT_LE(marginals.candidates, info_.vocabulary);
}

TEST_P(DrafterConformanceTest, AStaleEpochIsRefused) {
  Live live = Begin();
  ExpectValidDraft(Draft(live));
  Live stale = live;
  --stale.id.epoch;
  const auto result = drafter().Expand({NextFrontier(stale)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(result->drafts.at(0).status));
  drafter().Close(stale.id);
  ExpectValidDraft(Draft(live));
}

TEST_P(DrafterConformanceTest, ARefusedFrontierDoesNotAffectTheOthers) {
  Live live = Begin(), other = Begin();
  const Marginals alone = Draft(other);
  ExpectValidDraft(Draft(live));
  Live stale = live;
  --stale.id.epoch;
  Frontier invalid = NextFrontier(live);
  invalid.sequence.session = 4712;
  invalid.root = -1;
  const auto result = drafter().Expand({NextFrontier(stale), invalid, NextFrontier(other)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->drafts.at(0).status.ok());
  ASSERT_TRUE(result->drafts.at(2).status.ok()) << result->drafts[2].status;
  ExpectSameDraft(result->drafts[2].marginals.at(0), alone);
}

TEST_P(DrafterConformanceTest, ASessionThatOccursTwiceInACallIsRefusedOnce) {
  Live live = Begin();
  ExpectValidDraft(Draft(live));
  // The second frontier would close the sequence that the first one uses.
  Frontier later = NextFrontier(live);
  ++later.sequence.epoch;
  opened_.push_back(later.sequence);
  const auto result = drafter().Expand({NextFrontier(live), later});
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectValidDraft(result->drafts.at(0).marginals.at(0));
  EXPECT_TRUE(absl::IsInvalidArgument(result->drafts.at(1).status)) << result->drafts[1].status;
}

TEST_P(DrafterConformanceTest, AHigherEpochStartsANewSequence) {
  Live live = Begin();
  const Marginals before = Draft(live);
  ++live.id.epoch;
  ASSERT_TRUE(verifier().Open(live.id, {}).ok());
  opened_.push_back(live.id);
  live.new_tokens = {kPrompt.begin(), kPrompt.end() - 1};
  ASSERT_TRUE(verifier().Prefill({live.id, 0, live.new_tokens}).ok());
  EXPECT_EQ(Draft(live), before);
}

TEST_P(DrafterConformanceTest, CloseDropsTheStateAndIgnoresUnknownSequences) {
  Live live = Begin();
  const Marginals before = Draft(live);
  drafter().Close(live.id);
  drafter().Close(live.id);
  drafter().Close({4711, 5});
  Live again = live;
  again.new_tokens = {kPrompt.begin(), kPrompt.end() - 1};
  EXPECT_EQ(Draft(again), before);  // It counts as a new sequence.
  drafter().Close(live.id);
  --live.id.epoch;  // After Close, a lower epoch is not stale.
  EXPECT_TRUE(drafter().Expand({NextFrontier(live)}).ok());
  drafter().Close(live.id);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DrafterConformanceTest,
                         ::testing::ValuesIn(testing::KindsUnderTest()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bastion
