#include "common/stages/stage_data.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(AcceptanceTest, CommittedLengthCountsTheRoot) {
  Acceptance acceptance;
  EXPECT_EQ(acceptance.committed_length(), 1);
  acceptance.path = {1, 4, 9};
  EXPECT_EQ(acceptance.committed_length(), 4);
}

TEST(TimingTraceTest, VerifySumsLayoutForwardAndAccept) {
  TimingTrace trace;
  trace.queue = absl::Seconds(100);
  trace.layout = absl::Milliseconds(1);
  trace.forward = absl::Milliseconds(20);
  trace.accept = absl::Milliseconds(300);
  trace.commit = absl::Milliseconds(4000);
  trace.feature_export = absl::Milliseconds(50000);
  EXPECT_EQ(trace.verify(), absl::Milliseconds(321));
}

TEST(FrontierTest, ContainsOnlyTheRootByDefault) {
  const Frontier frontier;
  ASSERT_EQ(frontier.paths.size(), 1u);
  EXPECT_TRUE(frontier.paths[0].empty());
}

TEST(RowMasksTest, MasksThatDoNotFitTheirTreeAreRefused) {
  TokenSet set(10);
  set.Add(3);
  const RowMasks good = {{set}, {0, RowMasks::kAllTokens}};
  EXPECT_TRUE(good.Validate(2, 10).ok());
  EXPECT_TRUE(RowMasks().Validate(2, 10).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(good.Validate(3, 10)));
  EXPECT_TRUE(absl::IsInvalidArgument(good.Validate(2, 11)));
  EXPECT_TRUE(absl::IsInvalidArgument((RowMasks{{set}, {0, 1}}).Validate(2, 10)));
  EXPECT_TRUE(absl::IsInvalidArgument((RowMasks{{set}, {0, -2}}).Validate(2, 10)));
  EXPECT_TRUE(absl::IsInvalidArgument((RowMasks{{TokenSet(10)}, {0, 0}}).Validate(2, 10)));
}

TEST(TokenSetTest, TokensAreCounted) {
  TokenSet set(70);
  for (const TokenId token : {0, 31, 32, 69}) set.Add(token);
  EXPECT_EQ(set.size(), 4);
  EXPECT_TRUE(set.contains(69));
  EXPECT_FALSE(set.contains(68));
  EXPECT_EQ(set.words().size(), 3u);
}

}  // namespace
}  // namespace bastion
