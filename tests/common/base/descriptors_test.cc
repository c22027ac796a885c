#include "common/base/descriptors.h"

#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(DescriptorsTest, TheSharesLeaveSomeForFiles) {
  for (const size_t free : {8, 100, 1000, 1 << 20}) {
    EXPECT_LT(GrpcDescriptors(free) + HttpDescriptors(free), free);
    EXPECT_LE(HttpDescriptors(free), free / 4);
  }
  EXPECT_EQ(GrpcDescriptors(0), 1);
  EXPECT_EQ(HttpDescriptors(0), 1);
}

TEST(DescriptorsTest, OpenOnesDoNotCount) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  close(next);
  const rlimit low = {static_cast<rlim_t>(next) + 10, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto free = FreeDescriptors();
  setrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_EQ(*free, 10);
}

}  // namespace
}  // namespace bastion
