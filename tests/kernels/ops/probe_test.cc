#include "kernels/ops/probe.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"

namespace bastion::kernels {
namespace {

TEST(ProbeTest, ReadBandwidthIsPlausibleWithOneAndTwoThreads) {
  ThreadPool one_thread(1), two_threads(2);
  const double single = ReadBandwidth(one_thread);
  EXPECT_GT(single, 1e8);
  EXPECT_LT(single, 1e12);
  EXPECT_GT(ReadBandwidth(two_threads), 0.5 * single);
}

TEST(ProbeTest, LinearRateIsPlausible) {
  ThreadPool pool(1);
  const double rate = LinearRate(CpuBackend(), WeightFormat::kBF16, pool);
  EXPECT_LT(rate, 1e15);
  EXPECT_GT(rate, 1e8);
}

}  // namespace
}  // namespace bastion::kernels
