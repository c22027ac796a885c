#include "kernels/backend/probe.h"

#include <gtest/gtest.h>

namespace bastion::kernels {
namespace {

TEST(ProbeTest, ReadBandwidthIsPlausibleAndScalesWithThreads) {
  ThreadPool one(1), two(2);
  const double alone = ReadBandwidth(one);
  EXPECT_GT(alone, 1e8);
  EXPECT_LT(alone, 1e12);
  EXPECT_GT(ReadBandwidth(two), 0.5 * alone);
}

TEST(ProbeTest, LinearRateIsPlausible) {
  ThreadPool pool(1);
  const double rate = LinearRate(CpuBackend(), DType::kBF16, pool);
  EXPECT_LT(rate, 1e15);
  EXPECT_GT(rate, 1e8);
}

}  // namespace
}  // namespace bastion::kernels
