#include "orchestrator/belief/draft_belief.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

ValueHistogram Values(int nodes, double value) {
  ValueHistogram values;
  values.Add(value, nodes);
  return values;
}

TEST(DraftBeliefTest, IsOptimisticBeforeTheFirstDraft) {
  EXPECT_GT(DraftBelief().Expect(1).Sum(), 2);
}

TEST(DraftBeliefTest, ExpectsTheMeanOfRecentDrafts) {
  DraftBelief belief;
  for (int i = 0; i < 100; ++i) {
    belief.Observe(1, Values(4, 0.5));
    belief.Observe(1, Values(8, 0.5));
  }
  EXPECT_NEAR(belief.Expect(1).Sum(), 3, 0.05);
  for (int i = 0; i < 1000; ++i) belief.Observe(1, Values(2, 0.5));
  EXPECT_NEAR(belief.Expect(1).Sum(), 1, 0.01);
}

TEST(DraftBeliefTest, SeparatesDraftsByTheLengthOfTheDraftFreeTree) {
  DraftBelief belief;
  for (int i = 0; i < 200; ++i) {
    belief.Observe(1.0, Values(8, 0.5));
    belief.Observe(6.0, Values(2, 0.5));
  }
  EXPECT_NEAR(belief.Expect(1.1).Sum(), 4, 0.3);
  EXPECT_NEAR(belief.Expect(5.0).Sum(), 1, 0.3);
}

TEST(DraftBeliefTest, UsesAllDraftsWhereThereAreFewOfOneLength) {
  DraftBelief belief;
  for (int i = 0; i < 20; ++i) belief.Observe(1.0, Values(8, 0.5));
  belief.Observe(6.0, Values(0, 0.5));
  EXPECT_GT(belief.Expect(6.0).Sum(), 2.5);
}

TEST(RequestBeliefTest, OwnDraftsScaleTheSharedBelief) {
  DraftBelief shared;
  for (int i = 0; i < 200; ++i) shared.Observe(1, Values(8, 0.5));
  RequestBelief better, worse;
  EXPECT_NEAR(better.Expect(shared, 1).Sum(), 4, 0.05);
  for (int i = 0; i < 100; ++i) {
    better.Observe(1, Values(16, 0.5), &shared);
    worse.Observe(1, ValueHistogram(), &shared);
  }
  EXPECT_GT(better.Expect(shared, 1).Sum(), 6);
  EXPECT_LT(worse.Expect(shared, 1).Sum(), 1.5);
}

TEST(RequestBeliefTest, ALongRequestTeachesOthersOnlyWithItsFirstDrafts) {
  DraftBelief shared;
  for (int i = 0; i < 200; ++i) shared.Observe(1, Values(8, 0.5));
  RequestBelief useless;
  for (int i = 0; i < 1000; ++i) useless.Observe(1, ValueHistogram(), &shared);
  EXPECT_GT(RequestBelief().Expect(shared, 1).Sum(), 2.5);
}

}  // namespace
}  // namespace bastion
