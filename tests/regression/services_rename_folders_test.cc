// --learn_prior and --acceptance_calibration renamed a folder that they named to FOLDER.bad, and
// wrote a file in its place. A FIFO let the start hang.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "orchestrator/policy/acceptance_file.h"
#include "orchestrator/prior/learned_prior.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

constexpr int kVocabulary = 100;

class ServicesRenameFoldersTest : public ::testing::Test {
 protected:
  // Both files refuse `path`, which stays as it is.
  void ExpectRefused(const std::string& path) {
    alarm(60);  // Instead of hanging.
    const auto type = std::filesystem::symlink_status(path).type();
    const absl::Status prior = LearnedPrior::Open(path, kVocabulary).status();
    const absl::Status acceptance = AcceptanceFile::Open(path, kVocabulary).status();
    alarm(0);
    EXPECT_TRUE(absl::IsInvalidArgument(prior)) << prior;
    EXPECT_TRUE(absl::IsInvalidArgument(acceptance)) << acceptance;
    EXPECT_EQ(std::filesystem::symlink_status(path).type(), type);
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path + ".bad")));
  }

  testing::TempFolder folder_;
};

TEST_F(ServicesRenameFoldersTest, AFolderIsRefused) {
  const std::string path = folder_.File("drafter");
  std::filesystem::create_directory(path);
  ExpectRefused(path);
}

TEST_F(ServicesRenameFoldersTest, ALinkToAFolderIsRefused) {
  std::filesystem::create_directory(folder_.File("drafter"));
  std::filesystem::create_directory_symlink(folder_.File("drafter"), folder_.File("link"));
  ExpectRefused(folder_.File("link"));
}

TEST_F(ServicesRenameFoldersTest, AFifoIsRefused) {
  ASSERT_EQ(mkfifo(folder_.File("fifo").c_str(), 0600), 0);
  ExpectRefused(folder_.File("fifo"));
}

TEST_F(ServicesRenameFoldersTest, ALinkToADeviceIsRefused) {
  std::filesystem::create_symlink("/dev/null", folder_.File("link"));
  ExpectRefused(folder_.File("link"));
}

}  // namespace
}  // namespace bastion
