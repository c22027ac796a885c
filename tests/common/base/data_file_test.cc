#include "common/base/data_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

class CheckDataFileTest : public ::testing::Test {
 protected:
  // The error for a path with this name, and for a symbolic link to it.
  std::string Error(const std::string& path) {
    const std::string link = folder_.File("link");
    std::filesystem::create_symlink(path, link);
    const absl::Status status = CheckDataFile(path), by_link = CheckDataFile(link);
    std::filesystem::remove(link);
    EXPECT_EQ(status.code(), by_link.code());
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  testing::TempFolder folder_;
};

TEST_F(CheckDataFileTest, RegularAndMissingFilesPass) {
  std::ofstream(folder_.File("file")) << "x";
  EXPECT_EQ(Error(folder_.File("file")), "");
  EXPECT_EQ(Error(folder_.File("missing")), "");
  EXPECT_EQ(Error(folder_.File("no/folder")), "");
}

TEST_F(CheckDataFileTest, OtherKindsAreRefused) {
  std::filesystem::create_directory(folder_.File("folder"));
  EXPECT_THAT(Error(folder_.File("folder")), HasSubstr("folder is a folder"));
  ASSERT_EQ(mkfifo(folder_.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Error(folder_.File("fifo")), HasSubstr("is a FIFO"));
  EXPECT_THAT(Error("/dev/null"), HasSubstr("is a device"));
}

}  // namespace
}  // namespace bastion
