#include "tools/bench/peak_memory.h"

#include <vector>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(PeakMemoryTest, SeesAnAllocation) {
  ResetPeakMemory();
  const int64_t before = PeakMemory();
  ASSERT_GT(before, 0);
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> block(kBytes, 1);
  EXPECT_GE(PeakMemory(), before + static_cast<int64_t>(kBytes / 2)) << block.back();
}

}  // namespace
}  // namespace bastion
