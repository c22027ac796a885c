#include "common/wire/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {
namespace {

class PeerFolderTest : public ::testing::Test {
 protected:
  absl::Status Check() const { return CheckPeerFolder("unix://" + sockets_ + "/s.sock"); }
  void ExpectRefused() const {
    const absl::Status status = Check();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find(sockets_), std::string::npos) << status;
  }

  const testing::TempFolder folder_;
  const std::string sockets_ = folder_.File("sockets");
};

TEST_F(PeerFolderTest, AMissingFolderIsMadeBeforeAnotherUserCan) {
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Check();
    EXPECT_TRUE(status.ok()) << status;
  }
  struct stat info {};
  ASSERT_EQ(stat(sockets_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
  EXPECT_TRUE(CheckPeerFolder("127.0.0.1:1").ok());
}

TEST_F(PeerFolderTest, AFolderThatCannotBeMadeIsNamed) {
  const absl::Status status = CheckPeerFolder("unix:" + sockets_ + "/deep/s.sock");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(sockets_ + "/deep"), std::string::npos) << status;
}

TEST_F(PeerFolderTest, AFolderThatOthersMayWriteToIsRefused) {
  ASSERT_EQ(mkdir(sockets_.c_str(), 0700), 0);
  for (const mode_t mode : {0777, 01777, 0770, 0702}) {
    ASSERT_EQ(chmod(sockets_.c_str(), mode), 0);
    ExpectRefused();
  }
  ASSERT_EQ(chmod(sockets_.c_str(), 0755), 0);
  EXPECT_TRUE(Check().ok());
}

TEST_F(PeerFolderTest, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(mkdir(sockets_.c_str(), 0700), 0);
  ASSERT_EQ(chown(sockets_.c_str(), 12345, 12345), 0);
  ExpectRefused();
}

TEST_F(PeerFolderTest, OnlyATrustedLinkToAFolderIsFollowed) {
  ASSERT_EQ(mkdir(folder_.File("real").c_str(), 0700), 0);
  std::filesystem::create_symlink(folder_.File("real"), sockets_);
  EXPECT_TRUE(Check().ok());
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  ASSERT_EQ(lchown(sockets_.c_str(), 12345, 12345), 0);
  ExpectRefused();
}

}  // namespace
}  // namespace bastion::wire
