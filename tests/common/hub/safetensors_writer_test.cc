#include "common/hub/safetensors_writer.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/hub/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/full_disk.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  // Number of files in the folder.
  [[nodiscard]] size_t CountFiles() const {
    size_t files = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      ++files;
    }
    return files;
  }
  TempFolder folder_;
  const std::string path_ = folder_.File("t.safetensors");
};

TEST_F(SafetensorsWriterTest, TensorsOfAllTypesAreReadBackAligned) {
  const std::vector<uint16_t> odd = {1, 2, 3};
  const std::vector<float> matrix = {0.5f, -1, 2, 4, 8, 16};
  const std::vector<int32_t> negative = {-1};
  const std::vector<uint64_t> wide = {1, uint64_t{1} << 63}, none;
  NamedTensor shaped = TensorOf("matrix", matrix);
  shaped.view.shape = {2, 3};
  ASSERT_TRUE(WriteSafetensors({TensorOf("odd", odd), shaped, TensorOf("negative", negative),
                                TensorOf("wide", wide), TensorOf("none", none)},
                               path_)
                  .ok());
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->TensorNames(), ElementsAre("matrix", "negative", "none", "odd", "wide"));
  for (const std::string& name : file->TensorNames()) {
    EXPECT_TRUE(file->Tensor(name).ok()) << file->Tensor(name).status();
  }
  EXPECT_THAT(file->Tensor("matrix")->shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(file->Tensor("matrix")->data, matrix.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file->Tensor("odd")->data, odd.data(), 6), 0);
  EXPECT_EQ(static_cast<const int32_t*>(file->Tensor("negative")->data)[0], -1);
  EXPECT_EQ(static_cast<const uint64_t*>(file->Tensor("wide")->data)[1], uint64_t{1} << 63);
  EXPECT_EQ(file->Tensor("none")->bytes, 0u);
}

TEST_F(SafetensorsWriterTest, WritesAFileWithoutTensors) {
  ASSERT_TRUE(WriteSafetensors({}, path_).ok());
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->TensorNames().empty());
}

TEST_F(SafetensorsWriterTest, ReplacesAnOldFile) {
  folder_.Write("t.safetensors", "old");
  const std::vector<float> values = {1};
  ASSERT_TRUE(WriteSafetensors({TensorOf("w", values)}, path_).ok());
  EXPECT_TRUE(SafetensorsFile::Open(path_).ok());
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(SafetensorsWriterTest, TheUnfinishedFileIsNeverOneThatExists) {
  folder_.Write("victim", "old");
  for (const std::string& name : {std::string(".tmp"), absl::StrCat(".tmp.", getpid())}) {
    std::filesystem::create_symlink(folder_.File("victim"), path_ + name);
  }
  const std::vector<float> values = {1};
  ASSERT_TRUE(WriteSafetensors({TensorOf("w", values)}, path_).ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path_)));
  EXPECT_EQ(std::filesystem::file_size(folder_.File("victim")), 3u);
}

TEST_F(SafetensorsWriterTest, AMissingFolderIsReported) {
  const absl::Status missing = WriteSafetensors({}, folder_.File("none/t.safetensors"));
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_THAT(missing.message(), HasSubstr("none/t.safetensors"));
  folder_.Write("file", "x");
  EXPECT_THAT(WriteSafetensors({}, folder_.File("file/t.safetensors")).message(),
              HasSubstr("Not a directory"));
}

TEST_F(SafetensorsWriterTest, AFullDiskLeavesTheOldFileUnchanged) {
  folder_.Write("t.safetensors", "old");
  const std::vector<float> values(10000, 1.0f);
  const absl::Status status = [&] {
    const testing::FullDisk full_disk(4096);
    return WriteSafetensors({TensorOf("w", values)}, path_);
  }();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(),
              HasSubstr("t.safetensors (an existing file is unchanged): File too large"));
  EXPECT_EQ(std::filesystem::file_size(path_), 3u);
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(SafetensorsWriterTest, AbortsOnInvalidTensors) {
  const std::vector<float> values(4);
  NamedTensor wrong = TensorOf("w", values);
  wrong.view.shape = {2, 3};
  EXPECT_DEATH((void)WriteSafetensors({wrong}, path_), "24 vs 16 bytes of tensor 'w'");
  const NamedTensor twin = TensorOf("w", values);
  EXPECT_DEATH((void)WriteSafetensors({twin, twin}, path_), "two tensors are named 'w'");
}

}  // namespace
}  // namespace bastion::hub
