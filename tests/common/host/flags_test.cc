#include "common/host/flags.h"

#include <sys/stat.h>

#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {
namespace {

absl::Status Listen(const std::string& path) {
  return HostOptionsFromFlags({"127.0.0.1:0", "unix://" + path}, Security::None()).status();
}

TEST(WireFlagsTest, AFolderForSocketsIsMadeForThisUserOnly) {
  const testing::TempFolder folder;
  const std::string sockets = folder.File("sockets");
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Listen(sockets + "/s.sock");
    EXPECT_TRUE(status.ok()) << status;
  }
  struct stat info {};
  ASSERT_EQ(stat(sockets.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
}

TEST(WireFlagsTest, AFolderThatOthersMayEnterIsRefused) {
  const testing::TempFolder folder;
  const std::string sockets = folder.File("sockets");
  ASSERT_EQ(mkdir(sockets.c_str(), 0700), 0);
  ASSERT_EQ(chmod(sockets.c_str(), 0777), 0);
  const absl::Status status = Listen(sockets + "/s.sock");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find(sockets), std::string::npos) << status;
}

}  // namespace
}  // namespace bastion::wire
