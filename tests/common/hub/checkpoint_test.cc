#include "common/hub/checkpoint.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::AllOf;
using testing::CountingFloats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsFileOf;
using testing::TempFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

class CheckpointTest : public ::testing::Test {
 protected:
  void WriteSingle() {
    folder_.Write("model.safetensors",
                  SafetensorsFileOf({{"w", "F32", {2, 2}, CountingFloats(4)}}));
  }
  void WriteShards() {
    folder_.Write("s1.safetensors", SafetensorsFileOf({{"a", "F32", {3}, CountingFloats(3)}}));
    folder_.Write("s2.safetensors", SafetensorsFileOf({{"b", "F32", {1}, CountingFloats(1)},
                                                       {"c", "F32", {2}, CountingFloats(2)}}));
    folder_.Write(kIndex, R"({"metadata": {"total_size": 24}, "weight_map":
        {"a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors"}})");
  }
  void ExpectRefused(absl::StatusCode code, const std::string& first, const std::string& second) {
    const absl::Status status = Checkpoint::Open(folder_.path()).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(first), HasSubstr(second)));
  }
  TempFolder folder_;
};

TEST_F(CheckpointTest, ReadsASingleFile) {
  WriteSingle();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->folder(), folder_.path());
  const auto w = (*checkpoint)->Tensor("w", {2, 2});
  ASSERT_TRUE(w.ok()) << w.status();
  EXPECT_EQ(static_cast<const float*>(w->data)[3], 3.0f);
}

TEST_F(CheckpointTest, ReadsShards) {
  WriteShards();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->TensorNames(), ElementsAre("a", "b", "c"));
  EXPECT_TRUE((*checkpoint)->Has("c"));
  EXPECT_FALSE((*checkpoint)->Has("d"));
  EXPECT_EQ((*checkpoint)->Tensor("c", {2})->bytes, 8u);
}

TEST_F(CheckpointTest, PrefersTheSingleFileToShards) {
  WriteShards();
  WriteSingle();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->TensorNames(), ElementsAre("w"));
}

TEST_F(CheckpointTest, IgnoresOtherSafetensorsFiles) {
  folder_.Write("transition_prior.safetensors", "not even a safetensors file");
  ExpectRefused(absl::StatusCode::kNotFound, "contains neither", "model.safetensors");
  WriteSingle();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->TensorNames(), ElementsAre("w"));
}

TEST_F(CheckpointTest, RefusesIntegerWeights) {
  folder_.Write("model.safetensors", SafetensorsFileOf({{"w", "I32", {1}, "1234"}}));
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const absl::Status status = (*checkpoint)->Tensor("w", {1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("model.safetensors: tensor 'w' has dtype I32"),
                                      HasSubstr("weights must be F32, BF16 or F16")));
}

TEST_F(CheckpointTest, AFileMayBeDeletedWhileInUse) {
  WriteSingle();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ(std::remove(folder_.File("model.safetensors").c_str()), 0);
  EXPECT_EQ(static_cast<const float*>((*checkpoint)->Tensor("w", {2, 2})->data)[1], 1.0f);
}

TEST_F(CheckpointTest, AWrongShapeIsReportedWithBothShapes) {
  WriteSingle();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const absl::Status status = (*checkpoint)->Tensor("w", {4, 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("model.safetensors: tensor 'w' has shape [2, 2], expected [4, 1]"));
  EXPECT_FALSE((*checkpoint)->Tensor("w", {4}).ok());
}

TEST_F(CheckpointTest, AMissingTensorIsReported) {
  WriteSingle();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const absl::Status status = (*checkpoint)->Tensor("lm_head.weight", {1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(folder_.path()), HasSubstr("'lm_head.weight'")));
}

TEST_F(CheckpointTest, AMissingFolderAndMissingWeightsAreReported) {
  EXPECT_THAT(Checkpoint::Open(folder_.File("none")).status().message(),
              HasSubstr("no such folder"));
  ExpectRefused(absl::StatusCode::kNotFound, "contains neither model.safetensors",
                "convert weights in other formats to safetensors");
}

TEST_F(CheckpointTest, APickleIsRefusedWithTheCommandThatConvertsIt) {
  folder_.Write("pytorch_model.bin", "x");
  ExpectRefused(absl::StatusCode::kNotFound, "python3 -c", "weights_only=True");
}

TEST_F(CheckpointTest, AMissingShardIsReported) {
  WriteShards();
  ASSERT_EQ(std::remove(folder_.File("s2.safetensors").c_str()), 0);
  ExpectRefused(absl::StatusCode::kNotFound, kIndex,
                "shard s2.safetensors of tensor 'b' is missing");
}

TEST_F(CheckpointTest, ADamagedShardIsReported) {
  WriteShards();
  folder_.Write("s2.safetensors", "garbage!");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "s2.safetensors", "header");
}

TEST_F(CheckpointTest, AShardWithoutItsTensorIsReported) {
  WriteShards();
  folder_.Write("s2.safetensors", SafetensorsFileOf({{"c", "F32", {2}, CountingFloats(2)}}));
  ExpectRefused(absl::StatusCode::kInvalidArgument, kIndex,
                "shard s2.safetensors does not contain tensor 'b'");
}

TEST_F(CheckpointTest, ADamagedIndexIsReported) {
  folder_.Write(kIndex, "{");
  ExpectRefused(absl::StatusCode::kInvalidArgument, kIndex, "parse error");
  folder_.Write(kIndex, "{}");
  ExpectRefused(absl::StatusCode::kInvalidArgument, kIndex, "'weight_map' must map");
  folder_.Write(kIndex, R"({"weight_map": {"a": 3}})");
  ExpectRefused(absl::StatusCode::kInvalidArgument, kIndex, "'a' must name a file");
  folder_.Write(kIndex, R"({"weight_map": {"a": "../a.safetensors"}})");
  ExpectRefused(absl::StatusCode::kInvalidArgument, kIndex, "which is not a file name");
}

TEST_F(CheckpointTest, TheIdentityTellsCheckpointsApart) {
  const auto identity = [&](const std::string& config, std::vector<float> values) {
    folder_.Write("config.json", config);
    const std::string bytes(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(float));
    const auto count = static_cast<int64_t>(values.size());
    folder_.Write("model.safetensors", SafetensorsFileOf({{"w", "F32", {count}, bytes}}));
    const auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    const auto hash = (*checkpoint)->Identity();
    EXPECT_TRUE(hash.ok()) << hash.status();
    return hash.ok() ? *hash : "";
  };
  std::vector<float> values(5000, 1.0f);
  const std::string base = identity(R"({"layers": 2})", values);
  EXPECT_EQ(base.size(), 32u);
  EXPECT_EQ(identity(R"({ "layers" : 2 })", values), base) << "white space does not matter";
  EXPECT_NE(identity(R"({"layers": 3})", values), base);
  EXPECT_NE(identity(R"({"layers": 2})", {1.0f}), base);
  values.back() = 2.0f;
  EXPECT_NE(identity(R"({"layers": 2})", values), base);
}

TEST_F(CheckpointTest, TheIdentityOfAnEmptyTensorIsDefined) {
  folder_.Write("config.json", "{}");
  folder_.Write("model.safetensors", SafetensorsFileOf({{"w", "F32", {0}, ""}}));
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE((*checkpoint)->Identity().ok());
}

}  // namespace
}  // namespace bastion::hub
