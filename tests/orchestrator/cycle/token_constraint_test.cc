#include "orchestrator/cycle/token_constraint.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/orchestrator/cycle/decode_cycle_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kToyVocabulary;

constexpr TokenId kEnd = 96;  // Ends answers.

// Texts whose neighboring tokens differ by at most `step` (modulo the vocabulary), with up to
// `length` tokens. They may end after two tokens.
class NearTokens final : public TokenConstraint {
 public:
  NearTokens(int step, size_t length) : step_(step), length_(length) {}

  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override {
    return std::make_unique<NearTokens>(*this);
  }
  absl::StatusOr<TokenSet> Allowed() override {
    const bool on_path = std::equal(tokens_.begin(), tokens_.end(), path.begin(),
                                    path.begin() + std::min(path.size(), tokens_.size()));
    if (tokens_.size() >= fails_at_ || (!path.empty() && !on_path)) {
      failed_ = true;
      return absl::InvalidArgumentError("too complex");
    }
    TokenSet allowed(kToyVocabulary);
    for (TokenId token = 0; token < kToyVocabulary; ++token) {
      if (token == kEnd ? tokens_.size() >= 2 : Fits(token)) allowed.Add(token);
    }
    return allowed;
  }
  std::vector<TokenId> Forced() override { return forced; }
  absl::Status Push(TokenId token) override {
    if (complete() || !Fits(token)) return absl::InvalidArgumentError("the token does not fit");
    tokens_.push_back(token);
    return absl::OkStatus();
  }
  absl::Status Pop(int tokens) override {
    if (failed_ && breaks) return absl::InternalError("it broke before");
    tokens_.resize(tokens_.size() - tokens);
    return absl::OkStatus();
  }
  bool complete() const override { return tokens_.size() >= length_; }

  std::vector<TokenId> forced;
  std::vector<TokenId> path;  // If not empty: it is too complex beside this text.
  bool breaks = false;        // It cannot go back after an error.
  std::shared_ptr<int> copies = std::make_shared<int>();  // Its use count is that of the copies.

  void FailAt(size_t tokens) { fails_at_ = tokens; }
  [[nodiscard]] bool Fits(TokenId token) const {
    if (tokens_.empty()) return true;
    const int difference = std::abs(token - tokens_.back());
    return std::min(difference, kToyVocabulary - difference) <= step_;
  }

 private:
  int step_;
  size_t length_;
  size_t fails_at_ = ~size_t{0};
  bool failed_ = false;
  std::vector<TokenId> tokens_;
};

// The tokens that row `row` of `grown` may be followed by.
std::vector<TokenId> AllowedAfter(const GrownTree& grown, NodeIndex row) {
  std::vector<TokenId> tokens;
  const TokenSet* const allowed = grown.masks.Of(row);
  for (TokenId token = 0; allowed != nullptr && token < kToyVocabulary; ++token) {
    if (allowed->contains(token)) tokens.push_back(token);
  }
  return tokens;
}

TEST(ConstrainTreeTest, NodesThatAreNotAllowedAreRemovedWithAllBelowThem) {
  NearTokens constraint(1, 9);
  ASSERT_TRUE(constraint.Push(10).ok());
  GrownTree grown{DraftTree(10)};
  const NodeIndex near = grown.tree.Add(0, 11, -1);
  const NodeIndex far = grown.tree.Add(0, 20, -1);
  grown.tree.Add(far, 21, -2);
  grown.tree.Add(near, 12, -2);
  grown.tree.Add(near, 15, -2);
  ASSERT_TRUE(ConstrainTree({kEnd}, constraint, &grown).ok());
  EXPECT_THAT(grown.tree.tokens(), ElementsAre(10, 11, 12));
  EXPECT_EQ(grown.tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 1}));
  EXPECT_THAT(AllowedAfter(grown, 0), ElementsAre(9, 10, 11));
  EXPECT_THAT(AllowedAfter(grown, 1), ElementsAre(10, 11, 12, kEnd));
  EXPECT_THAT(AllowedAfter(grown, 2), ElementsAre(11, 12, 13, kEnd));
  EXPECT_EQ(*constraint.Allowed(), *grown.masks.Of(0));  // As before.
}

TEST(ConstrainTreeTest, NothingIsConstrainedAfterTheEnd) {
  NearTokens constraint(1, 3);
  ASSERT_TRUE(constraint.Push(10).ok());
  GrownTree grown{DraftTree(10)};
  const NodeIndex second = grown.tree.Add(0, 11, -1);
  grown.tree.Add(grown.tree.Add(second, kEnd, -2), 5, -3);
  grown.tree.Add(grown.tree.Add(second, 12, -2), 13, -3);
  ASSERT_TRUE(ConstrainTree({kEnd}, constraint, &grown).ok());
  EXPECT_THAT(grown.tree.tokens(), ElementsAre(10, 11, kEnd, 12));
  EXPECT_THAT(AllowedAfter(grown, 2), IsEmpty());
  EXPECT_THAT(AllowedAfter(grown, 3), IsEmpty());  // Complete.
}

TEST(ConstrainTreeTest, RowsWithTheSameTokensShareAMask) {
  NearTokens constraint(kToyVocabulary, 9);
  GrownTree grown{DraftTree(10)};
  grown.tree.Add(grown.tree.Add(grown.tree.Add(0, 1, -1), 2, -2), 3, -3);
  ASSERT_TRUE(ConstrainTree({kEnd}, constraint, &grown).ok());
  EXPECT_EQ(grown.tree.nodes(), 3);
  EXPECT_EQ(grown.masks.sets.size(), 2u);  // The answer may end after two tokens.
}

TEST(ConstrainTreeTest, AnErrorLeavesTheConstraintAsItWas) {
  NearTokens constraint(1, 9);
  constraint.FailAt(2);
  ASSERT_TRUE(constraint.Push(10).ok());
  GrownTree grown{DraftTree(10)};
  grown.tree.Add(grown.tree.Add(0, 11, -1), 12, -2);
  EXPECT_TRUE(absl::IsInvalidArgument(ConstrainTree({kEnd}, constraint, &grown)));
  EXPECT_TRUE(constraint.Allowed().ok());
}

TEST(ConstrainTreeTest, AnErrorIsReturnedThoughTheConstraintCannotGoBackAfterIt) {
  NearTokens constraint(1, 9);
  constraint.FailAt(2);
  constraint.breaks = true;
  ASSERT_TRUE(constraint.Push(10).ok());
  GrownTree grown{DraftTree(10)};
  grown.tree.Add(grown.tree.Add(0, 11, -1), 12, -2);
  EXPECT_TRUE(absl::IsInvalidArgument(ConstrainTree({kEnd}, constraint, &grown)));
}

TEST(AddPathTest, APathBeginsWithTheNodesThatTheTreeHas) {
  GrownTree grown{DraftTree(10)};
  grown.tree.Add(grown.tree.Add(0, 11, -1), 5, -2);
  const std::vector<TokenId> path = {11, 12, 13};
  EXPECT_EQ(LengthInTree(grown.tree, path), 1);
  AddPath(path, &grown.tree);
  EXPECT_THAT(grown.tree.tokens(), ElementsAre(10, 11, 5, 12, 13));
  EXPECT_EQ(grown.tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 1, 1, 3}));
  EXPECT_TRUE(grown.tree.Validate(kToyVocabulary).ok());
  EXPECT_EQ(LengthInTree(grown.tree, path), 3);
  AddPath(path, &grown.tree);
  EXPECT_EQ(grown.tree.nodes(), 4);
}

class ConstrainedCycleTest : public DecodeCycleTest {
 protected:
  DecodeSequence MakeConstrained(uint64_t session, const std::string& policy,
                                 const NearTokens& constraint) {
    DecodeRequest request;
    request.id = {session, 0};
    request.prompt = kPrompt;
    request.max_tokens = kTokens;
    request.stop_tokens = {kEnd};
    request.constraint = std::make_shared<NearTokens>(constraint);
    return DecodeSequence(std::move(request),
                          Policy::Parse(policy)->NewRequest(/*greedy=*/true, &costs_, &memory_));
  }
};

TEST_F(ConstrainedCycleTest, EveryPolicyGivesTheTextOfPlainDecodingUnderTheConstraint) {
  DecodeSequence plain = MakeConstrained(1, "ar", {30, 40});
  Run(plain);
  ASSERT_TRUE(plain.status().ok()) << plain.status();
  NearTokens check(30, 40);
  for (const TokenId token : plain.output()) {
    if (token == kEnd) break;
    ASSERT_TRUE(check.Push(token).ok());
  }
  uint64_t session = 2;
  for (const char* policy : {"fixed:16", "chain", "beam:2x4", "eagle:3,4,16", "specblock:n=16",
                             "default", "adaptive", "ngram:8"}) {
    DecodeSequence sequence = MakeConstrained(session++, policy, {30, 40});
    Run(sequence);
    EXPECT_TRUE(sequence.status().ok()) << policy << ": " << sequence.status();
    EXPECT_EQ(sequence.output(), plain.output()) << policy;
    EXPECT_EQ(sequence.reason(), plain.reason()) << policy;
  }
}

TEST_F(ConstrainedCycleTest, TreesSaveCyclesUnderAConstraintToo) {
  DecodeSequence plain = MakeConstrained(1, "ar", {60, 50});
  DecodeSequence trees = MakeConstrained(2, "fixed:16", {60, 50});
  Run(plain);
  Run(trees);
  EXPECT_LT(2 * trees.cycles().size(), plain.cycles().size());
}

TEST_F(ConstrainedCycleTest, APreemptedSequenceKeepsNoStateOfItsConstraint) {
  const NearTokens constraint(30, 40);
  DecodeSequence plain = MakeConstrained(1, "fixed:4", constraint);
  Run(plain);
  DecodeSequence preempted = MakeConstrained(2, "fixed:4", constraint);
  const long copies = constraint.copies.use_count();
  Begin(preempted);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cycle_.Step({&preempted}).ok());
  ASSERT_FALSE(preempted.done());
  EXPECT_EQ(constraint.copies.use_count(), copies + 1);
  cycle_.Close(preempted, drafter_);
  preempted.Preempt();
  EXPECT_EQ(constraint.copies.use_count(), copies);
  cycle_.Open(preempted);
  while (cycle_.Prefill(preempted, /*max_tokens=*/7)) {
  }
  while (!preempted.done()) ASSERT_TRUE(cycle_.Step({&preempted}).ok());
  EXPECT_EQ(preempted.output(), plain.output());
}

// The masks of one slow request would hold up all others.
TEST_F(ConstrainedCycleTest, SlowMasksLimitTheTree) {
  TargetInfo target = *verifier_.Info();
  target.max_rows = 512;
  DecodeSequence sequence = MakeConstrained(1, "default", {30, 40});
  const int before = sequence.Limits(target).nodes;
  sequence.RecordMasks(/*rows=*/10, absl::Milliseconds(10));
  EXPECT_GT(before, 5);
  EXPECT_EQ(sequence.Limits(target).nodes, 5) << "1 ms a mask, 5 ms a cycle";
  sequence.RecordMasks(/*rows=*/1, absl::Seconds(1));
  EXPECT_EQ(sequence.Limits(target).nodes, 0) << "nothing below the root";
}

TEST_F(ConstrainedCycleTest, WrongGuessesOfForcedTokensDoNotChangeTheText) {
  DecodeSequence plain = MakeConstrained(1, "ar", {30, 40});
  Run(plain);
  NearTokens guessing(30, 40);
  guessing.forced = {7, 8, 9, 10};
  for (const char* policy : {"default", "fixed:4"}) {
    DecodeSequence sequence = MakeConstrained(policy[0], policy, guessing);
    Run(sequence);
    EXPECT_EQ(sequence.output(), plain.output()) << policy;
  }
}

TEST_F(ConstrainedCycleTest, ForcedTokensThatTheTargetNeverChoosesAreNoLongerVerified) {
  NearTokens guessing(30, 40);
  guessing.forced = {7, 8, 9, 10};  // Text that the target spells in another way.
  int nodes_at_first = 0, nodes_at_last = 0;
  for (uint64_t session = 1; session <= 12; ++session) {
    DecodeSequence sequence = MakeConstrained(session, "default", guessing);
    Run(sequence);
    int nodes = 0;
    for (const CycleRecord& cycle : sequence.cycles()) nodes += cycle.nodes - cycle.accepted;
    if (session == 1) nodes_at_first = nodes;
    nodes_at_last = nodes;
  }
  EXPECT_LT(3 * nodes_at_last, nodes_at_first);
}

TEST_F(ConstrainedCycleTest, AnAnswerEndsWhereTheConstraintIsComplete) {
  for (const char* policy : {"ar", "fixed:16"}) {
    DecodeSequence sequence =
        MakeConstrained(policy == std::string("ar") ? 1 : 2, policy, {kToyVocabulary, 7});
    Run(sequence);
    EXPECT_EQ(sequence.output().size(), 7u) << policy;
    EXPECT_EQ(sequence.reason(), FinishReason::kComplete) << policy;
  }
}

TEST_F(ConstrainedCycleTest, AConstraintThatFailsFailsItsRequestAlone) {
  NearTokens failing(30, 40);
  failing.FailAt(5);
  DecodeSequence bad = MakeConstrained(1, "fixed:16", failing), good = Make(2, "fixed:16");
  Begin(bad);
  Begin(good);
  while (!bad.done()) ASSERT_TRUE(cycle_.Step({&bad, &good}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status())) << bad.status();
  while (!good.done()) ASSERT_TRUE(cycle_.Step({&good}).ok());
  EXPECT_EQ(good.output(), testing::ToyText(kPrompt, {}, kTokens));
}

TEST_F(ConstrainedCycleTest, AnUnchosenBranchThatIsTooComplexDoesNotEndTheAnswer) {
  DecodeSequence plain = MakeConstrained(1, "ar", {30, 40});
  Run(plain);
  NearTokens constraint(30, 40);
  constraint.path = plain.output();
  uint64_t session = 2;
  for (const bool breaks : {false, true}) {
    constraint.breaks = breaks;
    DecodeSequence sequence = MakeConstrained(session++, "fixed:16", constraint);
    Run(sequence);
    EXPECT_TRUE(sequence.status().ok()) << sequence.status();
    EXPECT_EQ(sequence.output(), plain.output());
    EXPECT_EQ(sequence.reason(), plain.reason());
  }
}

TEST_F(ConstrainedCycleTest, APreemptedRequestContinuesUnderItsConstraint) {
  DecodeSequence whole = MakeConstrained(1, "fixed:16", {30, 40});
  Run(whole);
  DecodeSequence sequence = MakeConstrained(2, "fixed:16", {30, 40});
  Begin(sequence);
  for (int i = 0; i < 3 && !sequence.done(); ++i) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  cycle_.Close(sequence, drafter_);
  sequence.Preempt();
  cycle_.Open(sequence);
  while (cycle_.Prefill(sequence, /*max_tokens=*/64)) {
  }
  while (!sequence.done()) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  EXPECT_EQ(sequence.output(), whole.output());
}

}  // namespace
}  // namespace bastion
