#include "orchestrator/planner/value_histogram.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(ValueHistogramTest, BinsHoldCountsAndSumsFromLargeToSmallValues) {
  ValueHistogram histogram;
  histogram.Add(1.0);
  histogram.Add(0.5, 2);
  histogram.Add(0.49);
  EXPECT_EQ(histogram.bin(0).count, 1);
  EXPECT_EQ(histogram.bin(ValueHistogram::kBinsPerHalving).count, 3);
  EXPECT_DOUBLE_EQ(histogram.bin(ValueHistogram::kBinsPerHalving).sum, 1.49);
  EXPECT_DOUBLE_EQ(histogram.Sum(), 2.49);
}

TEST(ValueHistogramTest, LeavesOutNegligibleValues) {
  ValueHistogram histogram;
  histogram.Add(0);
  histogram.Add(1e-9);
  EXPECT_EQ(histogram.Sum(), 0);
}

TEST(ValueHistogramTest, SurplusIsWhatNodesAreWorthBeyondTheirPrice) {
  ValueHistogram histogram;
  histogram.Add(0.9);
  histogram.Add(0.5);
  histogram.Add(0.1);
  EXPECT_NEAR(histogram.Surplus(0.3), 0.6 + 0.2, 1e-9);
  EXPECT_NEAR(histogram.Surplus(0), 1.5, 1e-9);
}

TEST(ValueHistogramTest, AddsAndScales) {
  ValueHistogram a, b;
  a.Add(0.5);
  b.Add(0.5);
  b.Add(0.25);
  a.Add(b, 2);
  a.Scale(0.5);
  EXPECT_NEAR(a.Sum(), (0.5 + 2 * 0.75) / 2, 1e-9);
}

}  // namespace
}  // namespace bastion
