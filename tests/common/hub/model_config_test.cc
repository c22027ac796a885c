#include "common/hub/model_config.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;

json Target() {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"hidden_size", 96},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 32},
          {"intermediate_size", 256},
          {"vocab_size", 1000},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 1000000},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"bos_token_id", nullptr},
          {"eos_token_id", 7}};
}

json Drafter() {
  json config = Target();
  config["architectures"] = {"DFlashDraftModel"};
  config["block_size"] = 16;
  config["num_target_layers"] = 36;
  config["dflash_config"] = {{"target_layer_ids", {1, 9, 17}}, {"mask_token_id", 999}};
  return config;
}

class ModelConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  // Reads `config` with `key` set to `value` and expects an error that names the file and contains
  // `reason`.
  void ExpectRefused(json config, const char* key, const json& value, const std::string& reason,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    config[key] = value;
    const absl::Status status = Read(config).status();
    EXPECT_EQ(status.code(), code) << key << " " << value << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json"), HasSubstr(reason))) << key;
  }
  TempFolder folder_;
};

TEST_F(ModelConfigTest, ReadsAQwen3Target) {
  const auto config = Read(Target());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kTarget);
  EXPECT_EQ(config->architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(config->blocks.norm, NormKind::kRms);
  EXPECT_EQ(config->blocks.mlp, MlpKind::kGatedSilu);
  EXPECT_TRUE(config->blocks.query_key_norm);
  EXPECT_FALSE(config->blocks.qkv_bias || config->blocks.mlp_bias);
  EXPECT_FALSE(config->blocks.parallel_residual);
  EXPECT_EQ(config->blocks.rope.dims, 32);
  EXPECT_FALSE(config->blocks.rope.llama3.has_value());
  EXPECT_EQ(config->names.blocks, "model.layers.");
  EXPECT_EQ(config->dims.hidden, 96);
  EXPECT_EQ(config->dims.layers, 3);
  EXPECT_EQ(config->dims.query_heads, 6);
  EXPECT_EQ(config->dims.kv_heads, 2);
  EXPECT_EQ(config->dims.head_dim, 32);
  EXPECT_EQ(config->dims.intermediate, 256);
  EXPECT_EQ(config->dims.vocabulary, 1000);
  EXPECT_EQ(config->dims.bytes_per_weight, 2);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_EQ(config->max_positions, 2048);
  EXPECT_EQ(config->blocks.norm_epsilon, 1e-5);
  EXPECT_EQ(config->blocks.rope.theta, 1e6);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_THAT(config->sliding_windows, ElementsAre(0, 0, 0));
  EXPECT_THAT(config->special.eos, ElementsAre(7));
  EXPECT_THAT(config->special.bos, IsEmpty());
}

TEST_F(ModelConfigTest, UsesTheDefaultsOfTransformers) {
  json config = Target();
  for (const char* key :
       {"num_key_value_heads", "head_dim", "max_position_embeddings", "torch_dtype", "rms_norm_eps",
        "rope_theta", "tie_word_embeddings", "eos_token_id"}) {
    config.erase(key);
  }
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dims.kv_heads, 6);
  EXPECT_EQ(read->dims.head_dim, 128);
  EXPECT_EQ(read->max_positions, 32768);
  EXPECT_EQ(read->dtype, DType::kF32);
  EXPECT_EQ(read->blocks.norm_epsilon, 1e-6);
  EXPECT_EQ(read->blocks.rope.theta, 10000.0);
  EXPECT_FALSE(read->tie_word_embeddings);
  EXPECT_THAT(read->special.eos, IsEmpty());
}

TEST_F(ModelConfigTest, ReadsTheKeysOfTransformers5) {
  json config = Target();
  config.erase("rope_theta");
  config.erase("torch_dtype");
  config["rope_parameters"] = {{"rope_theta", 5000.0}, {"rope_type", "default"}};
  config["dtype"] = "float16";
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->blocks.rope.theta, 5000.0);
  EXPECT_EQ(read->dtype, DType::kF16);
}

TEST_F(ModelConfigTest, MergesTheEndTokensOfBothFiles) {
  json config = Target();
  config["eos_token_id"] = {9, 3};
  folder_.Write("generation_config.json", R"({"eos_token_id": [5, 3]})");
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->special.eos, ElementsAre(3, 5, 9));
}

TEST_F(ModelConfigTest, ADamagedGenerationConfigIsReported) {
  folder_.Write("generation_config.json", "{");
  EXPECT_THAT(Read(Target()).status().message(), HasSubstr("generation_config.json"));
  folder_.Write("generation_config.json", R"({"eos_token_id": 1000})");
  EXPECT_THAT(Read(Target()).status().message(), HasSubstr("outside the vocabulary of 1000"));
}

TEST_F(ModelConfigTest, ReadsADFlashDrafter) {
  const auto config = Read(Drafter());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kDflash);
  EXPECT_EQ(config->names.blocks, "layers.");
  EXPECT_EQ(config->drafter.dflash.block_size, 16);
  EXPECT_EQ(config->drafter.dflash.num_target_layers, 36);
  EXPECT_EQ(config->drafter.dflash.mask_token, 999);
  EXPECT_THAT(config->drafter.dflash.target_layer_ids, ElementsAre(1, 9, 17));
}

TEST_F(ModelConfigTest, NewerDraftersHaveTheirBlockSizeInDflashConfig) {
  json config = Drafter();
  config.erase("block_size");
  config["dflash_config"]["block_size"] = 12;
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->drafter.dflash.block_size, 12);
}

// Fields of version 2, which would have to be obeyed.
TEST_F(ModelConfigTest, RefusesUnknownFieldsOfDrafters) {
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  ExpectRefused(Drafter(), "dflash_config", {{"mask_token_id", 5}, {"selector_rank", 8}},
                "do not know the field 'selector_rank'", unimplemented);
  ExpectRefused(Drafter(), "conv_kernel_size", 3, "do not know the field 'conv_kernel_size'",
                unimplemented);
}

TEST_F(ModelConfigTest, IsCausalSelectsCausalWindows) {
  EXPECT_TRUE(Read(Drafter())->drafter.dflash.causal_windows);
  json config = Drafter();
  config["is_causal"] = false;
  EXPECT_FALSE(Read(config)->drafter.dflash.causal_windows);
  ExpectRefused(Drafter(), "is_causal", 1, "'is_causal' must be true or false");
}

TEST_F(ModelConfigTest, ADrafterWithoutTargetLayersUsesTheDefault) {
  json config = Drafter();
  config["dflash_config"].erase("target_layer_ids");
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->drafter.dflash.target_layer_ids, ElementsAre(1, 17, 33));
}

// Computed by hand: round(1 + i * (L - 4) / (n - 1)), half to even.
TEST(DefaultTargetLayerIdsTest, SpacesLayersEvenly) {
  EXPECT_THAT(DefaultTargetLayerIds(36, 5), ElementsAre(1, 9, 17, 25, 33));
  EXPECT_THAT(DefaultTargetLayerIds(28, 5), ElementsAre(1, 7, 13, 19, 25));
  EXPECT_THAT(DefaultTargetLayerIds(32, 4), ElementsAre(1, 10, 20, 29));
  EXPECT_THAT(DefaultTargetLayerIds(36, 1), ElementsAre(18));
  EXPECT_THAT(DefaultTargetLayerIds(7, 1), ElementsAre(3));
}

TEST(DefaultTargetLayerIdsTest, RoundsHalfToEven) {
  EXPECT_THAT(DefaultTargetLayerIds(7, 3), ElementsAre(1, 2, 4));  // 2.5 -> 2
  EXPECT_THAT(DefaultTargetLayerIds(9, 3), ElementsAre(1, 4, 6));  // 3.5 -> 4
}

TEST_F(ModelConfigTest, ReadsSlidingLayersFromLayerTypes) {
  json config = Drafter();
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  config["sliding_window"] = 64;
  config["use_sliding_window"] = true;
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->sliding_windows, ElementsAre(64, 0, 64));
}

TEST_F(ModelConfigTest, ReadsSlidingLayersFromMaxWindowLayers) {
  json config = Target();
  config["sliding_window"] = 64;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 1;
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->sliding_windows, ElementsAre(0, 64, 64));
}

TEST_F(ModelConfigTest, ATargetWithSlidingLayersNeedsAWindow) {
  json config = Drafter();
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  config["sliding_window"] = 64;
  const auto drafter = Read(config);
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  EXPECT_THAT(drafter->sliding_windows, Each(0));
  json target = Target();
  target["sliding_window"] = 64;
  ExpectRefused(target, "layer_types", config["layer_types"], "'sliding_window' must be set");
}

TEST_F(ModelConfigTest, RefusesInvalidLayerTypes) {
  ExpectRefused(Target(), "layer_types", json::array({"full_attention"}),
                "must have one entry for each of the 3 layers");
  ExpectRefused(Target(), "layer_types", "full", "must have one entry for each of the 3 layers");
  ExpectRefused(Target(), "layer_types", {"full_attention", "linear_attention", "full_attention"},
                "layer type 'linear_attention'", absl::StatusCode::kUnimplemented);
  ExpectRefused(Target(), "layer_types", {1, 2, 3}, "layer type '1'",
                absl::StatusCode::kUnimplemented);
}

TEST_F(ModelConfigTest, RefusesUnknownArchitectures) {
  ExpectRefused(Target(), "architectures", {"GPT2LMHeadModel"},
                "names 'GPT2LMHeadModel'; it must be Qwen3ForCausalLM, Qwen3MoeForCausalLM, "
                "Qwen2ForCausalLM, LlamaForCausalLM, MistralForCausalLM, SmolLM3ForCausalLM, "
                "GPTNeoXForCausalLM (targets) or DFlashDraftModel, DFlash2DraftModel, "
                "DFlash2Speculator, LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, "
                "Eagle3Speculator, Eagle3DraftModel, PEagleSpeculator, PEagleDraftModel, "
                "LlamaForCausalLMSpecBlock, LlamaForCausalLMSpecBlockShift (drafters)");
  for (const json& none : {json(), json::array(), json("Qwen3ForCausalLM"), json::array({3})}) {
    ExpectRefused(Target(), "architectures", none, "'architectures' must be a list");
  }
}

TEST_F(ModelConfigTest, RefusesNumbersThatAreNotPositive) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "intermediate_size", "vocab_size",
                          "max_position_embeddings", "rms_norm_eps", "rope_theta"}) {
    ExpectRefused(Target(), key, 0, std::string("'") + key + "' is 0; it must be positive");
    ExpectRefused(Target(), key, -2, "it must be positive");
    ExpectRefused(Target(), key, "many", std::string("'") + key + "' must be a");
  }
}

TEST_F(ModelConfigTest, RefusesMissingNumbers) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "vocab_size"}) {
    ExpectRefused(Target(), key, nullptr, std::string("'") + key + "' is missing");
  }
}

TEST_F(ModelConfigTest, RefusesInvalidHeads) {
  ExpectRefused(Target(), "num_key_value_heads", 4,
                "is 4, which does not divide the 6 query heads");
  ExpectRefused(Target(), "head_dim", 33, "rotary embeddings need an even number");
}

TEST_F(ModelConfigTest, RefusesUnsupportedFeatures) {
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  ExpectRefused(Target(), "attention_bias", true, "attention_bias", unimplemented);
  ExpectRefused(Target(), "hidden_act", "gelu",
                "'hidden_act' is \"gelu\"; the engines support only \"silu\"", unimplemented);
  ExpectRefused(Target(), "rope_scaling", {{"type", "longrope"}, {"factor", 2}}, "type 'longrope'",
                unimplemented);
  ExpectRefused(Target(), "rope_scaling", {{"rope_type", "yarn"}}, "'factor' is missing");
  json harmless = Target();
  harmless["attention_bias"] = false;
  harmless["rope_scaling"] = nullptr;
  EXPECT_TRUE(Read(harmless).ok());
}

TEST_F(ModelConfigTest, RefusesUnsupportedDTypes) {
  ExpectRefused(Target(), "torch_dtype", "float64", "is 'float64'; it must be float32");
  ExpectRefused(Target(), "dtype", 3, "'dtype' must be a string");
}

TEST_F(ModelConfigTest, RefusesSpecialTokensOutsideTheVocabulary) {
  ExpectRefused(Target(), "eos_token_id", 1000, "is 1000, which is outside the vocabulary of 1000");
  ExpectRefused(Target(), "eos_token_id", {1, -1}, "is -1, which is outside");
  ExpectRefused(Target(), "bos_token_id", 5000, "'bos_token_id' is 5000");
  ExpectRefused(Target(), "eos_token_id", "<eos>", "must be an integer or a list");
}

TEST_F(ModelConfigTest, RefusesInvalidDrafterFields) {
  ExpectRefused(Drafter(), "block_size", nullptr, "'block_size' is missing");
  ExpectRefused(Drafter(), "block_size", 1, "no position to draft");
  ExpectRefused(Drafter(), "num_target_layers", nullptr, "'num_target_layers' is missing");
  ExpectRefused(Drafter(), "dflash_config", nullptr, "'mask_token_id' is missing");
  ExpectRefused(Drafter(), "dflash_config", 3, "'dflash_config' must be an object");
  ExpectRefused(Drafter(), "dflash_config", {{"mask_token_id", 1000}}, "'mask_token_id' is 1000");
  ExpectRefused(Drafter(), "dflash_config", {{"mask_token_id", 5}, {"target_layer_ids", {0, 36}}},
                "lists layer 36, but the target has 36 layers");
}

TEST_F(ModelConfigTest, AMissingConfigIsNotFound) {
  EXPECT_EQ(ReadModelConfig(folder_.path()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ReadModelConfig("/nowhere").status().message(), HasSubstr("/nowhere/config.json"));
}

TEST_F(ModelConfigTest, RefusesAConfigThatIsNotUtf8) {
  folder_.Write("config.json", "{\"x\": \"\xC3\x28\"}");
  const absl::Status status = ReadModelConfig(folder_.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("config.json is not UTF-8 at byte 7"));
}

}  // namespace
}  // namespace bastion::hub
