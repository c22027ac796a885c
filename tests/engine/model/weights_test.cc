#include "engine/model/weights.h"

#include <cstring>

#include "engine/host/host_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::nn {
namespace {

using testing::CountingFloats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsFileOf;

class WeightsTest : public ::testing::Test {
 protected:
  // A checkpoint with a [2, 3], b [1, 3] and v [4] of floats 0, 1, 2, … and h [2, 2] of bf16.
  std::shared_ptr<const hub::Checkpoint> Open() {
    folder_.Write("model.safetensors",
                  SafetensorsFileOf({{"a", "F32", {2, 3}, CountingFloats(6)},
                                     {"b", "F32", {1, 3}, CountingFloats(3)},
                                     {"v", "F32", {4}, CountingFloats(4)},
                                     {"h", "BF16", {2, 2}, std::string(8, '\x3f')}}));
    return hub::Checkpoint::Open(folder_.path()).value();
  }
  float At(const Matrix& matrix, int n, int k) {
    const kernels::PackedMatrix packed = {matrix.format, matrix.rows, matrix.columns};
    return reinterpret_cast<const float*>(matrix.data())[packed.offset(n, k)];
  }

  testing::TempFolder folder_;
  kernels::ThreadPool pool_{2};
  EngineOptions options_{FormatsFor(WeightFormat::kF32),
                         MakeHostDevice(kernels::CpuBackend(), pool_)};
  PackingPlan plan_;
};

TEST_F(WeightsTest, RunningThePlanFillsStackedMatrices) {
  const auto checkpoint = Open();
  const WeightLoader loader(*options_.device, checkpoint, FormatsFor(WeightFormat::kF32), plan_);
  const auto stacked = loader.Stacked({AllRows("b", 1), AllRows("a", 2)}, 3);
  const auto alone = loader.Stacked({AllRows("a", 2)}, 3);
  ASSERT_TRUE(stacked.ok() && alone.ok());
  ASSERT_TRUE(plan_.Run("folder", options_).ok());
  EXPECT_EQ(stacked->rows, 3);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(At(*stacked, 0, k), k);
    EXPECT_EQ(At(*stacked, 1, k), k);
    EXPECT_EQ(At(*stacked, 2, k), 3 + k);
    EXPECT_EQ(At(*alone, 1, k), 3 + k);
  }
}

TEST_F(WeightsTest, ConsecutiveChosenRowsAreOnePart) {
  const std::vector<TensorRows> parts = ChosenRows("a", 9, {0, 1, 2, 5, 7, 8});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT((std::vector<int>{parts[0].first, parts[1].first, parts[2].first}),
              ElementsAre(0, 5, 7));
  EXPECT_THAT((std::vector<int>{parts[0].rows, parts[1].rows, parts[2].rows}),
              ElementsAre(3, 1, 2));
  EXPECT_EQ(parts[2].total, 9);
}

// More parts than a panel has rows, and parts that cross panels.
TEST_F(WeightsTest, ChosenRowsArePackedInTheirOrder) {
  constexpr int kRows = 200;
  folder_.Write("model.safetensors",
                SafetensorsFileOf({{"a", "F32", {kRows, 3}, CountingFloats(3 * kRows)}}));
  const auto checkpoint = hub::Checkpoint::Open(folder_.path()).value();
  const WeightLoader loader(*options_.device, checkpoint, FormatsFor(WeightFormat::kF32), plan_);
  std::vector<int32_t> chosen;
  for (int row = 0; row < kRows; ++row) {
    if (row % 2 == 0 || row > 110) chosen.push_back(row);
  }
  const auto matrix = loader.Stacked(ChosenRows("a", kRows, chosen), 3);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  ASSERT_TRUE(plan_.Run("folder", options_).ok());
  ASSERT_EQ(matrix->rows, static_cast<int>(chosen.size()));
  for (int n = 0; n < matrix->rows; ++n) EXPECT_EQ(At(*matrix, n, 1), 3 * chosen[n] + 1);
}

TEST_F(WeightsTest, ProgressIsOneLineWithoutATerminal) {
  options_.show_progress = true;
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(plan_.Run("models/pair/", options_).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "loading pair as 0 MB of fp32: 0 of 0 MB\n");
}

TEST_F(WeightsTest, WeightsThatDoNotFitIntoMemoryAreRefused) {
  EXPECT_TRUE(CheckFits("m.gguf", 300 << 20, 300 << 20, WeightFormat::kBF16).ok());
  EXPECT_TRUE(CheckFits("m.gguf", 300 << 20, 0, WeightFormat::kBF16).ok()) << "0: not known";
  const absl::Status status = CheckFits("m.gguf", 300 << 20, 299 << 20, WeightFormat::kBF16);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("m.gguf: the weights take 300 MB as bf16, but only 299 MB"));
}

TEST_F(WeightsTest, ATableOfTheSameTypeIsACopyThatOutlivesTheFile) {
  auto checkpoint = Open();
  const auto in_file = checkpoint->Tensor("h", {2, 2});
  ASSERT_TRUE(in_file.ok());
  const std::string bytes(static_cast<const char*>(in_file->data), in_file->bytes);
  const auto table =
      WeightLoader(*options_.device, checkpoint, FormatsFor(WeightFormat::kBF16), plan_)
          .Table("h", 2, 2);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::weak_ptr<const hub::Checkpoint> watched = checkpoint;
  checkpoint.reset();
  // A file that is overwritten or truncated changes no text and ends no process.
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(std::string(static_cast<const char*>(table->data()), bytes.size()), bytes);
}

TEST_F(WeightsTest, ATableOfADifferentTypeIsConverted) {
  const auto checkpoint = Open();
  const auto table =
      WeightLoader(*options_.device, checkpoint, FormatsFor(WeightFormat::kInt8), plan_)
          .Table("a", 2, 3);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(kernels::Bf16ToFloat(table->as<uint16_t>()[1 * 3 + 2]), 5);
}

TEST_F(WeightsTest, VectorsAreCopiedAsFloats) {
  const auto checkpoint = Open();
  const auto vector =
      WeightLoader(*options_.device, checkpoint, FormatsFor(WeightFormat::kBF16), plan_)
          .Vector("v", 4);
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_NE(vector->data(), checkpoint->Tensor("v", {4})->data);
  EXPECT_EQ(vector->as<float>()[3], 3);
}

TEST_F(WeightsTest, AMissingTensorOrAWrongShapeIsReported) {
  const auto checkpoint = Open();
  const WeightLoader loader(*options_.device, checkpoint, FormatsFor(WeightFormat::kF32), plan_);
  EXPECT_THAT(loader.Stacked({AllRows("a", 2), AllRows("z", 1)}, 3).status().message(),
              HasSubstr("'z'"));
  EXPECT_THAT(loader.Stacked({AllRows("a", 3)}, 3).status().message(), HasSubstr("[2, 3]"));
}

}  // namespace
}  // namespace bastion::nn
