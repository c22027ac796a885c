#include "drafter_service/replay/block_accuracy.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter_service/replay/stub_engine.h"

namespace bastion::drafter {
namespace {

using Count = BlockAccuracy::Count;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SequenceId kCounted = {1, 0};

// Drafts after these nodes, when the first `committed` tokens of the text are committed.
void Expand(DrafterEngine& engine, const std::vector<TokenId>& text, Position committed,
            std::vector<std::vector<TokenId>> paths) {
  Frontier frontier;
  frontier.sequence = kCounted;
  frontier.committed = committed;
  frontier.root = text[committed];
  frontier.new_tokens = {text.begin(), text.begin() + committed};
  frontier.paths = std::move(paths);
  frontier.candidates = 6;
  ASSERT_TRUE(engine.Expand({&frontier, 1}).ok());
}

// Commits the whole text and closes the sequence.
void Finish(DrafterEngine& engine, std::vector<TokenId> text) {
  text.push_back(9);  // The root of the last cycle is not committed.
  Expand(engine, text, static_cast<Position>(text.size()) - 1, {{}});
  engine.Close(kCounted);
}

// A drafter of blocks with `positions` positions after any node. It predicts 0, and then 1 to 5.
BlockAccuracyCounter Counter(int positions) {
  return BlockAccuracyCounter(StubEngine::Make(positions, /*expands_nodes=*/true));
}

TEST(BlockAccuracyTest, APositionCountsOnlyAfterRightOnes) {
  BlockAccuracyCounter counter = Counter(3);
  const std::vector<TokenId> text = {9, 9, 0, 0, 2, 0};
  Expand(counter, text, 1, {{}});  // Two positions are right, the third one is wrong.
  Expand(counter, text, 3, {{}});  // The first one is wrong.
  Finish(counter, text);
  EXPECT_THAT(counter.accuracy().blocks,
              ElementsAre(ElementsAre(Count{2, 1}, Count{1, 1}, Count{1, 0})));
}

TEST(BlockAccuracyTest, LaterBlocksCountOnTheirOwnIfTheirPathIsTheText) {
  BlockAccuracyCounter counter = Counter(2);
  const std::vector<TokenId> text = {9, 9, 0, 0, 0, 5, 9};
  Expand(counter, text, 1, {{}});
  Expand(counter, text, 1, {{0, 0}, {0, 1}, {1}});  // Only the first path is the text.
  Expand(counter, text, 1, {{0, 0, 0, 5}});
  Finish(counter, text);
  EXPECT_THAT(counter.accuracy().blocks, ElementsAre(ElementsAre(Count{1, 1}, Count{1, 1}),
                                                     ElementsAre(Count{1, 1}, Count{1, 0}),
                                                     ElementsAre(Count{1, 0}, Count{0, 0})));
}

TEST(BlockAccuracyTest, AllBlocksOfTheSecondRoundAreSecondOnes) {
  BlockAccuracyCounter counter = Counter(3);
  const std::vector<TokenId> text = {9, 9, 0, 0, 5, 0};
  Expand(counter, text, 1, {{}});
  Expand(counter, text, 1, {{0}, {0, 0}, {0, 0, 5}});
  Finish(counter, text);
  EXPECT_THAT(counter.accuracy().blocks,
              ElementsAre(ElementsAre(Count{1, 1}, Count{1, 1}, Count{1, 0}),
                          ElementsAre(Count{3, 2}, Count{1, 0}, Count{0, 0})));
}

TEST(BlockAccuracyTest, ABlockAfterASiblingIsTheSecondOneToo) {
  BlockAccuracyCounter counter = Counter(2);
  const std::vector<TokenId> text = {9, 9, 3, 0, 0};
  Expand(counter, text, 1, {{}});
  Expand(counter, text, 1, {{3}});
  Finish(counter, text);
  EXPECT_THAT(counter.accuracy().blocks, ElementsAre(ElementsAre(Count{1, 0}, Count{0, 0}),
                                                     ElementsAre(Count{1, 1}, Count{1, 1})));
}

TEST(BlockAccuracyTest, PositionsBeyondTheEndOfTheTextDoNotCount) {
  BlockAccuracyCounter counter = Counter(3);
  const std::vector<TokenId> text = {9, 9, 0};
  Expand(counter, text, 1, {{}});
  Finish(counter, text);
  EXPECT_THAT(counter.accuracy().blocks,
              ElementsAre(ElementsAre(Count{1, 1}, Count{0, 0}, Count{0, 0})));
}

TEST(BlockAccuracyTest, BucketsAreThoseOfTheTextAndOfTheRankHead) {
  auto stub = StubEngine::Make(1);
  StubEngine& engine = *stub;
  BlockAccuracyCounter counter(std::move(stub));
  const std::vector<TokenId> text = {9, 0, 3, 4, 77};
  engine.set_bucket(0);
  for (const Position committed : {0, 1}) Expand(counter, text, committed, {{}});
  engine.set_bucket(2);
  for (const Position committed : {2, 3}) Expand(counter, text, committed, {{}});
  Finish(counter, text);
  const auto& buckets = counter.accuracy().buckets;
  EXPECT_THAT(buckets[0], ElementsAre(1, 0, 0, 0)) << "token 0 has rank 1";
  EXPECT_THAT(buckets[1], ElementsAre(1, 0, 0, 0)) << "token 3 has rank 4";
  EXPECT_THAT(buckets[2], ElementsAre(0, 0, 1, 0)) << "token 4 has rank 5";
  EXPECT_THAT(buckets[3], ElementsAre(0, 0, 1, 0)) << "token 77 is no candidate";
}

TEST(BlockAccuracyTest, WithoutARankHeadNoBucketCounts) {
  BlockAccuracyCounter counter = Counter(2);
  const std::vector<TokenId> text = {9, 9, 0, 0};
  Expand(counter, text, 1, {{}});
  Finish(counter, text);
  for (const auto& row : counter.accuracy().buckets) EXPECT_THAT(row, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Counter(2).accuracy().blocks, IsEmpty());
}

}  // namespace
}  // namespace bastion::drafter
