#include "common/hub/tensor_names.h"

#include "common/hub/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorNamesTest : public ::testing::Test {
 protected:
  // A checkpoint with tensors of one element.
  std::shared_ptr<const Checkpoint> Open(const std::vector<std::string>& names) {
    std::vector<testing::TensorFixture> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, "F32", {1}, testing::CountingFloats(1)});
    }
    folder_.Write("model.safetensors", testing::SafetensorsFileOf(tensors));
    return Checkpoint::Open(folder_.path()).value();
  }
  testing::TempFolder folder_;
};

TEST_F(TensorNamesTest, AnUnreadTensorIsNamed) {
  const auto checkpoint = Open({"a", "q.bias", "r.bias"});
  EXPECT_TRUE(checkpoint->Tensor("a", {1}).ok());
  EXPECT_THAT(checkpoint->UnreadTensors(), ElementsAre("q.bias", "r.bias"));
  const absl::Status status = CheckAllRead(*checkpoint, {}, /*tied=*/false);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("tensor 'q.bias' is not a part of the model"));
  EXPECT_THAT(status.message(), HasSubstr("(2 such tensors)"));
  EXPECT_THAT(status.message(), HasSubstr(folder_.path()));
}

TEST_F(TensorNamesTest, ReadingEveryTensorIsFine) {
  const auto checkpoint = Open({"a", "b"});
  for (const char* name : {"a", "b", "a"}) EXPECT_TRUE(checkpoint->Tensor(name, {1}).ok());
  EXPECT_TRUE(CheckAllRead(*checkpoint, {}, /*tied=*/false).ok());
}

TEST_F(TensorNamesTest, ConstantsOfOldCheckpointsAreIgnored) {
  const auto checkpoint =
      Open({"gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.masked_bias",
            "gpt_neox.layers.0.attention.rotary_emb.inv_freq",
            "model.layers.0.self_attn.rotary_emb.inv_freq"});
  EXPECT_TRUE(CheckAllRead(*checkpoint, {}, /*tied=*/false).ok());
  const auto bias = Open({"gpt_neox.layers.0.attention.dense.bias"});
  EXPECT_FALSE(CheckAllRead(*bias, {}, /*tied=*/false).ok());
}

TEST_F(TensorNamesTest, OnlyATiedHeadIsIgnored) {
  const auto checkpoint = Open({"lm_head.weight"});
  EXPECT_TRUE(CheckAllRead(*checkpoint, {}, /*tied=*/true).ok());
  EXPECT_FALSE(CheckAllRead(*checkpoint, {}, /*tied=*/false).ok());
  TensorNames neox;
  neox.head = "embed_out";
  EXPECT_FALSE(CheckAllRead(*checkpoint, neox, /*tied=*/true).ok());
}

}  // namespace
}  // namespace bastion::hub
