#include "orchestrator/cycle/forced_tokens.h"

#include <memory>

#include "gmock/gmock.h"
#include "tests/orchestrator/cycle/decode_cycle_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;

// Allows every text, and guesses the same tokens after each.
class Guessing final : public TokenConstraint {
 public:
  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override {
    return std::make_unique<Guessing>(*this);
  }
  absl::StatusOr<TokenSet> Allowed() override { return TokenSet(testing::kToyVocabulary); }
  std::vector<TokenId> Forced() override { return {7, 8, 9, 10}; }
  absl::Status Push(TokenId /*token*/) override { return absl::OkStatus(); }
  absl::Status Pop(int /*tokens*/) override { return absl::OkStatus(); }
  bool complete() const override { return false; }
};

class ForcedTokensTest : public DecodeCycleTest {
 protected:
  DecodeSequence MakeGuessing(const std::string& policy) {
    DecodeRequest request;
    request.prompt = kPrompt;
    request.max_tokens = 2000;
    request.constraint = std::make_shared<Guessing>();
    return DecodeSequence(std::move(request),
                          Policy::Parse(policy)->NewRequest(/*greedy=*/true, &costs_, &memory_));
  }
  // A tree with the root alone, and the tokens that are added to it.
  DraftTree Tree(DecodeSequence& sequence, int room = 9, int max_depth = 9) {
    DraftTree tree(1);
    forced_.AddTo(&tree, sequence, room, max_depth, planner_);
    return tree;
  }

  ForestPlanner planner_;
  ForcedTokens forced_;
};

TEST_F(ForcedTokensTest, TheTokensJoinTheTree) {
  DecodeSequence sequence = MakeGuessing("fixed:4");
  EXPECT_THAT(Tree(sequence).tokens(), ElementsAre(1, 7, 8, 9, 10));
}

TEST_F(ForcedTokensTest, RoomAndDepthLimitThem) {
  DecodeSequence sequence = MakeGuessing("fixed:4");
  EXPECT_THAT(Tree(sequence, /*room=*/2).tokens(), ElementsAre(1, 7, 8));
  EXPECT_THAT(Tree(sequence, /*room=*/9, /*max_depth=*/3).tokens(), ElementsAre(1, 7, 8, 9));
  EXPECT_EQ(Tree(sequence, /*room=*/0).nodes(), 0);
  EXPECT_EQ(Tree(sequence, /*room=*/-1).nodes(), 0);
  EXPECT_EQ(Tree(sequence, /*room=*/9, /*max_depth=*/0).nodes(), 0);
}

TEST_F(ForcedTokensTest, NodesThatTheTreeHasTakeNoRoom) {
  DecodeSequence sequence = MakeGuessing("fixed:4");
  DraftTree tree(1);
  tree.Add(0, 7, -1);
  forced_.AddTo(&tree, sequence, /*room=*/2, /*max_depth=*/9, planner_);
  EXPECT_THAT(tree.tokens(), ElementsAre(1, 7, 8, 9));
}

TEST_F(ForcedTokensTest, PlainDecodingVerifiesNone) {
  DecodeSequence sequence = MakeGuessing("ar");
  EXPECT_EQ(Tree(sequence).nodes(), 0);
}

TEST_F(ForcedTokensTest, TheRateFollowsWhatTheTargetChooses) {
  EXPECT_GT(forced_.rate(), 0.9);
  DecodeSequence sequence = MakeGuessing("fixed:4");
  const auto run_cycles = [&](const Acceptance& acceptance) {
    for (int i = 0; i < 250; ++i) sequence.Commit({Tree(sequence)}, acceptance, {});
  };
  run_cycles({.path = {1}, .next = 50});  // The first token, then another one.
  EXPECT_NEAR(forced_.rate(), 0.5, 0.02);
  run_cycles({.path = {1, 2, 3}, .next = 10});
  EXPECT_NEAR(forced_.rate(), 1, 0.02);
  DecodeSequence unconstrained = Make(1, "fixed:4");
  for (int i = 0; i < 500; ++i) (void)Tree(unconstrained);
  EXPECT_NEAR(forced_.rate(), 1, 0.02) << "nothing was forced";
}

}  // namespace
}  // namespace bastion
