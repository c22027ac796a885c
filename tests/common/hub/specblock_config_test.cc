// SpecBlock drafters: what their config.json means, and what is refused.
#include "common/hub/specblock_config.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalidBlock = absl::StatusCode::kInvalidArgument;
constexpr auto kUnknownBlock = absl::StatusCode::kUnimplemented;
constexpr const char* kTokens = "diffspec_draft_token_num";
constexpr const char* kLayerList = "eagle_aux_hidden_state_layer_ids";

// As the authors' drafter for Llama 3.1 8B.
json ForLlama() {
  return {{"architectures", {"LlamaForCausalLMSpecBlock"}},
          {"bos_token_id", 128000},
          {"eos_token_id", 128001},
          {"hidden_act", "silu"},
          {"hidden_size", 4096},
          {"initializer_range", 0.02},
          {"intermediate_size", 14336},
          {"max_position_embeddings", 2048},
          {"model_type", "llama"},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"num_hidden_layers", 2},
          {"pad_token_id", 0},
          {"rms_norm_eps", 1e-05},
          {"tie_word_embeddings", false},
          {"torch_dtype", "float16"},
          {"transformers_version", "4.28.1"},
          {"use_cache", true},
          {"vocab_size", 128256},
          {"draft_vocab_size", 32000},
          {"_comment_specblock", "a note"},
          {kTokens, 4},
          {"rank_classes", 4}};
}

// As the authors' drafter for Qwen3-8B.
json ForQwen3() {
  json config = ForLlama();
  config["architectures"] = {"LlamaForCausalLMSpecBlockShift"};
  config["head_dim"] = 128;
  config["intermediate_size"] = 12288;
  config["rms_norm_eps"] = 1e-06;
  config["rope_scaling"] = nullptr;
  config["rope_theta"] = 1000000;
  config["torch_dtype"] = "bfloat16";
  config["vocab_size"] = 151936;
  config["num_ttt_blocks"] = 3;
  return config;
}

class SpecBlockConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  // Reads the drafter for Qwen3 with `key` set to `value`.
  absl::StatusOr<ModelConfig> ReadWith(const char* key, const json& value) {
    json config = ForQwen3();
    config[key] = value;
    return Read(config);
  }
  void ExpectRefused(const char* key, const json& value, absl::StatusCode code,
                     const std::string& reason) {
    const absl::Status status = ReadWith(key, value).status();
    EXPECT_EQ(status.code(), code) << key << " " << value << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json"), HasSubstr(reason))) << key;
  }
  testing::TempFolder folder_;
};

TEST_F(SpecBlockConfigTest, ReadsTheDrafterForLlama) {
  const auto config = Read(ForLlama());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kSpecBlock);
  EXPECT_EQ(config->architecture, "LlamaForCausalLMSpecBlock");
  EXPECT_EQ(config->dims.layers, 2);
  EXPECT_EQ(config->dims.head_dim, 128) << "hidden_size / num_attention_heads";
  EXPECT_EQ(config->dims.vocabulary, 128256);
  EXPECT_EQ(config->blocks.rope.theta, 10000) << "not that of the target";
  EXPECT_FALSE(config->blocks.query_key_norm || config->blocks.qkv_bias ||
               config->blocks.output_bias || config->blocks.mlp_bias);
  EXPECT_EQ(config->dtype, DType::kF16);
  EXPECT_EQ(config->names.embedding, "embed_tokens");
  EXPECT_EQ(config->names.blocks, "layers.");
  EXPECT_EQ(config->names.final_norm, "norm");
  EXPECT_EQ(config->names.head, "lm_head");
  EXPECT_THAT(config->sliding_windows, ElementsAre(0, 0));
  const SpecBlockConfig& specblock = config->drafter.specblock;
  EXPECT_EQ(specblock.positions, 4);
  EXPECT_EQ(config->drafter.head.vocabulary, 32000);
  EXPECT_EQ(config->drafter.head.target_hidden, 4096);
  EXPECT_THAT(config->drafter.head.target_layers, IsEmpty());
  EXPECT_EQ(specblock.rank_classes, 4);
  EXPECT_FALSE(specblock.path_positions);
}

TEST_F(SpecBlockConfigTest, ReadsTheDrafterForQwen3) {
  const auto config = Read(ForQwen3());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kSpecBlock);
  EXPECT_EQ(config->architecture, "LlamaForCausalLMSpecBlockShift");
  EXPECT_EQ(config->blocks.rope.theta, 1e6);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_EQ(config->drafter.specblock.positions, 4);
}

TEST_F(SpecBlockConfigTest, ReadsOtherNumbersOfLayersAndWidths) {
  EXPECT_EQ(ReadWith("num_hidden_layers", 1)->dims.layers, 1);
  EXPECT_EQ(ReadWith("num_hidden_layers", 3)->dims.layers, 3);
  EXPECT_EQ(ReadWith("head_dim", 64)->dims.head_dim, 64);
  EXPECT_EQ(ReadWith("target_hidden_size", 7168)->drafter.head.target_hidden, 7168);
  EXPECT_FALSE(ReadWith("tie_word_embeddings", true)->tie_word_embeddings)
      << "the drafter has a head of its own";
}

TEST_F(SpecBlockConfigTest, ABlockHasOneToSixtyFourPositions) {
  for (const int positions : {1, 3, 64}) {
    EXPECT_EQ(ReadWith(kTokens, positions)->drafter.specblock.positions, positions);
  }
  ExpectRefused(kTokens, 0, kInvalidBlock, "it must be positive");
  ExpectRefused(kTokens, 65, kInvalidBlock, "is 65; it must be at most 64");
  ExpectRefused(kTokens, nullptr, kInvalidBlock, "is missing");
}

TEST_F(SpecBlockConfigTest, TheRankHeadHasFourClassesOrIsAbsent) {
  EXPECT_EQ(ReadWith("rank_classes", nullptr)->drafter.specblock.rank_classes, 4);
  EXPECT_EQ(ReadWith("rank_classes", 0)->drafter.specblock.rank_classes, 0);
  ExpectRefused("rank_classes", 5, kUnknownBlock, "'rank_classes' is 5; the engines implement");
  ExpectRefused("rank_classes", -4, kUnknownBlock, "'rank_classes' is -4;");
  ExpectRefused("rank_classes", "four", kInvalidBlock, "'rank_classes'");
}

TEST_F(SpecBlockConfigTest, LaterBlocksCountTheirPathOnlyIfTheConfigSaysSo) {
  EXPECT_FALSE(ReadWith("block_positions", "same")->drafter.specblock.path_positions);
  EXPECT_TRUE(ReadWith("block_positions", "path")->drafter.specblock.path_positions);
  ExpectRefused("block_positions", "depth", kInvalidBlock,
                "is 'depth'; it must be 'same' or 'path'");
  ExpectRefused("block_positions", true, kInvalidBlock, "'block_positions'");
}

TEST_F(SpecBlockConfigTest, AllRowsReadThePrefixUnlessTheConfigSaysNo) {
  EXPECT_TRUE(Read(ForQwen3())->drafter.specblock.prefix_broadcast);
  EXPECT_TRUE(ReadWith("prefix_broadcast", true)->drafter.specblock.prefix_broadcast);
  EXPECT_FALSE(ReadWith("prefix_broadcast", false)->drafter.specblock.prefix_broadcast);
  ExpectRefused("prefix_broadcast", "no", kInvalidBlock, "'prefix_broadcast'");
}

// The drafters list layers as EAGLE-3 drafters do: eagle_config_test.cc has more cases.
TEST_F(SpecBlockConfigTest, LayersAreListedAsForEagle) {
  EXPECT_THAT(ReadWith(kLayerList, {2, 18, 33})->drafter.head.target_layers,
              ElementsAre(1, 17, 32));
  EXPECT_THAT(ReadWith(kLayerList, {1, 17, 32})->drafter.head.target_layers,
              ElementsAre(1, 17, 32));
  EXPECT_THAT(ReadWith("eagle_config", {{kLayerList, {3, 5, 6}}})->drafter.head.target_layers,
              ElementsAre(2, 4, 5));
  ExpectRefused(kLayerList, {0, 13, 24}, kInvalidBlock, "lists 0; it must list numbers");
  EXPECT_EQ(ReadWith("draft_vocab_size", nullptr)->drafter.head.vocabulary, 151936);
  ExpectRefused("draft_vocab_size", 151937, kInvalidBlock, "which is more than the vocabulary");
}

TEST_F(SpecBlockConfigTest, RefusesWhatItDoesNotImplement) {
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    ExpectRefused(key, true, kUnknownBlock, std::string("'") + key + "' is true");
  }
  ExpectRefused("hidden_act", "gelu", kUnknownBlock, "'hidden_act' is \"gelu\"");
  ExpectRefused("norm_before_residual", true, kUnknownBlock, "do not know the field");
  ExpectRefused("diffspec_mask", 3, kUnknownBlock, "do not know the field 'diffspec_mask'");
  ExpectRefused("architectures", {"LlamaForCausalLMSpecBlock2"}, kInvalidBlock,
                "LlamaForCausalLMSpecBlock, LlamaForCausalLMSpecBlockShift (drafters)");
}

TEST_F(SpecBlockConfigTest, IsNoTarget) {
  for (const json& config : {ForLlama(), ForQwen3()}) {
    folder_.Write("config.json", config.dump());
    EXPECT_THAT(ReadTargetConfig(folder_.path()).status().message(), HasSubstr("is a drafter"));
  }
}

// The configs of the goldens, which a Python program wrote, name the layers that it read.
TEST(SpecBlockGoldensTest, ListTheLayersOfTheirFeatures) {
  const std::vector<std::string> names = testing::SpecBlockGoldens();
  EXPECT_EQ(names.size(), 4u);
  EXPECT_THAT(names, Each(HasSubstr("specblock_")));
  for (const std::string& name : names) {
    const auto target = ReadTargetConfig(testing::GoldenFolder(name) + "/target");
    const auto drafter = ReadModelConfig(testing::GoldenFolder(name) + "/drafter");
    ASSERT_TRUE(target.ok() && drafter.ok()) << target.status() << drafter.status();
    std::vector<int> layers = drafter->drafter.head.target_layers;
    if (layers.empty()) layers = DefaultEagleLayers(target->dims.layers);
    EXPECT_EQ(layers, testing::GoldenFeatureLayers(name)) << name;
  }
}

}  // namespace
}  // namespace bastion::hub
