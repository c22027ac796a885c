#include "orchestrator/cost/steady_plain.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(SteadyPlainTest, CorrectsOnlyTheObservedNumberOfSequences) {
  SteadyPlain plain;
  EXPECT_FALSE(plain.known(8));
  EXPECT_EQ(plain.factor(8), 1);
  plain.Observe(8, /*predicted=*/1.0, /*observed=*/0.8);
  EXPECT_TRUE(plain.known(8));
  EXPECT_TRUE(plain.known(15));
  EXPECT_NEAR(plain.factor(8), 0.8, 0.01);
  for (const int sequences : {1, 4, 7, 16}) {
    EXPECT_FALSE(plain.known(sequences)) << sequences;
    EXPECT_EQ(plain.factor(sequences), 1) << sequences;
  }
}

TEST(SteadyPlainTest, FollowsAChange) {
  SteadyPlain plain;
  for (int i = 0; i < 100; ++i) plain.Observe(4, 1.0, 0.6);
  for (int i = 0; i < 160; ++i) plain.Observe(4, 1.0, 0.9);
  EXPECT_NEAR(plain.factor(4), 0.9, 0.02);
}

TEST(SteadyPlainTest, OneStallChangesLittle) {
  SteadyPlain plain;
  for (int i = 0; i < 100; ++i) plain.Observe(4, 1.0, 0.6);
  plain.Observe(4, 1.0, 50.0);
  EXPECT_LT(plain.factor(4), 0.75);
}

TEST(SteadyPlainTest, IgnoresNoiseAndNeverRaisesACost) {
  SteadyPlain plain;
  plain.Observe(2, 1.0, 0.995);
  EXPECT_EQ(plain.factor(2), 1);
  plain.Observe(4, 1.0, 1.5);
  EXPECT_EQ(plain.factor(4), 1);
}

}  // namespace
}  // namespace bastion
