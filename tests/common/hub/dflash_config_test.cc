// Reads configs of DFlash 2 drafters, in the formats of z-lab and of speculators.
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/hub/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalidDflash = absl::StatusCode::kInvalidArgument;
constexpr auto kUnknownDflash = absl::StatusCode::kUnimplemented;

// As in the published drafter of Muse-Glimmer-30B, with smaller dimensions.
json ZLab() {
  return {{"architectures", {"DFlash2DraftModel"}},
          {"model_type", "qwen3"},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"dtype", "bfloat16"},
          {"head_dim", 128},
          {"hidden_act", "silu"},
          {"hidden_size", 160},
          {"intermediate_size", 480},
          {"is_causal", false},
          {"layer_types", {"sliding_attention", "sliding_attention"}},
          {"max_position_embeddings", 4096},
          {"max_window_layers", 2},
          {"num_attention_heads", 4},
          {"num_hidden_layers", 2},
          {"num_key_value_heads", 2},
          {"num_target_layers", 52},
          {"rms_norm_eps", 1e-5},
          {"rope_parameters", {{"rope_theta", 500000}, {"rope_type", "default"}}},
          {"sliding_window", 2048},
          {"tie_word_embeddings", false},
          {"use_sliding_window", true},
          {"vocab_size", 1000},
          {"dflash_config",
           {{"block_size", 16},
            {"conv_group_size", 16},
            {"conv_kernel_size", 2},
            {"final_logit_softcapping", 20.0},
            {"input_embedding_scale", 2.0},
            {"mask_token_id", 818},
            {"output_multiplier", 0.25},
            {"selector_rank", 256},
            {"selector_top_k", 16},
            {"target_layer_ids", {1, 13, 25, 37, 49}}}}};
}

json SpeculatorsDflash() {
  json decoder = ZLab();
  for (const char* key :
       {"architectures", "dtype", "is_causal", "num_target_layers", "dflash_config"}) {
    decoder.erase(key);
  }
  return {{"architectures", {"DFlash2DraftModel"}},
          {"speculators_model_type", "dflash2"},
          {"speculators_version", "0.6.0"},
          {"speculators_config", {{"algorithm", "dflash2"}}},
          {"transformer_layer_config", decoder},
          {"aux_hidden_state_layer_ids", {1, 9, 17, 25, 33}},
          {"block_size", 8},
          {"conv_group_size", 16},
          {"conv_kernel_size", 2},
          {"draft_ffn_type", "dense"},
          {"draft_vocab_size", 1000},
          {"dtype", "bfloat16"},
          {"mask_token_id", 669},
          {"num_experts", 256},
          {"sample_from_anchor", false},
          {"selector_rank", 64},
          {"selector_top_k", 12},
          {"sliding_window_non_causal", true},
          {"target_hidden_size", nullptr},
          {"tie_word_embeddings", true}};
}

class DflashConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  void ExpectRefused(const json& config, absl::StatusCode code, const std::string& reason) {
    const absl::Status status = Read(config).status();
    EXPECT_EQ(status.code(), code) << reason << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json"), HasSubstr(reason)));
  }
  // Expects an error for the value of a field of dflash_config, and for the same in the format of
  // speculators.
  void ExpectRefusedField(const char* key, const json& value, absl::StatusCode code,
                          const std::string& reason) {
    json config = ZLab(), flat = SpeculatorsDflash();
    config["dflash_config"][key] = value;
    flat[key] = value;
    ExpectRefused(config, code, reason);
    ExpectRefused(flat, code, reason);
  }
  testing::TempFolder folder_;
};

TEST_F(DflashConfigTest, ReadsADrafterOfZLab) {
  const auto config = Read(ZLab());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kDflash);
  EXPECT_EQ(config->architecture, "DFlash2DraftModel");
  EXPECT_EQ(config->names.blocks, "layers.");
  EXPECT_EQ(config->blocks.rope.theta, 500000);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_THAT(config->sliding_windows, ElementsAre(2048, 2048));
  EXPECT_EQ(config->blocks.convolution.taps, 2);
  EXPECT_EQ(config->blocks.convolution.group, 16);
  EXPECT_EQ(config->blocks.convolution.block_rows, 16);
  const DFlashConfig& dflash = config->drafter.dflash;
  EXPECT_EQ(dflash.block_size, 16);
  EXPECT_EQ(dflash.num_target_layers, 52);
  EXPECT_THAT(dflash.target_layer_ids, ElementsAre(1, 13, 25, 37, 49));
  EXPECT_EQ(dflash.mask_token, 818);
  EXPECT_FALSE(dflash.causal_windows);
  EXPECT_EQ(dflash.selector_rank, 256);
  EXPECT_EQ(dflash.selector_candidates, 16);
  EXPECT_EQ(dflash.embedding_scale, 2);
  EXPECT_EQ(dflash.output_multiplier, 0.25f);
  EXPECT_EQ(dflash.logit_cap, 20);
}

TEST_F(DflashConfigTest, ReadsADrafterOfSpeculators) {
  const auto config = Read(SpeculatorsDflash());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kDflash);
  EXPECT_EQ(config->dims.hidden, 160);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_THAT(config->sliding_windows, ElementsAre(2048, 2048));
  EXPECT_EQ(config->blocks.convolution.block_rows, 8);
  const DFlashConfig& dflash = config->drafter.dflash;
  EXPECT_EQ(dflash.block_size, 8);
  EXPECT_EQ(dflash.num_target_layers, 0);
  EXPECT_THAT(dflash.target_layer_ids, ElementsAre(1, 9, 17, 25, 33));
  EXPECT_EQ(dflash.mask_token, 669);
  EXPECT_FALSE(dflash.causal_windows);
  EXPECT_EQ(dflash.selector_rank, 64);
  EXPECT_EQ(dflash.selector_candidates, 12);
  EXPECT_EQ(dflash.embedding_scale, 1);
  EXPECT_EQ(dflash.output_multiplier, 1);
  EXPECT_EQ(dflash.logit_cap, 0);
}

TEST_F(DflashConfigTest, WindowsOfSpeculatorsAreCausalOnlyIfTheFieldSaysIt) {
  json config = SpeculatorsDflash();
  config.erase("sliding_window_non_causal");
  EXPECT_FALSE(Read(config)->drafter.dflash.causal_windows);
  config["sliding_window_non_causal"] = false;
  EXPECT_TRUE(Read(config)->drafter.dflash.causal_windows);
}

TEST_F(DflashConfigTest, ABlockSizeInBothPlacesMustAgree) {
  json config = ZLab();
  config["block_size"] = 16;
  ASSERT_TRUE(Read(config).ok()) << Read(config).status();
  config["block_size"] = 8;
  ExpectRefused(config, kInvalidDflash, "'block_size' is 8, but in 'dflash_config' it is 16");
  config["dflash_config"].erase("block_size");
  EXPECT_EQ(Read(config)->blocks.convolution.block_rows, 8);
}

TEST_F(DflashConfigTest, TheFieldsOfVersion2AreRequired) {
  for (const char* key :
       {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}) {
    ExpectRefusedField(key, nullptr, kInvalidDflash, std::string("'") + key + "' is missing");
    ExpectRefusedField(key, 0, kInvalidDflash, "it must be positive");
    ExpectRefusedField(key, 1 << 20, kInvalidDflash, "it must be at most");
  }
  ExpectRefusedField("conv_group_size", 15, kInvalidDflash,
                     "is 15, which does not divide the 160 elements of a row");
}

TEST_F(DflashConfigTest, RefusesScalesThatAreNoScales) {
  for (const char* key : {"input_embedding_scale", "output_multiplier"}) {
    ExpectRefusedField(key, 0, kInvalidDflash, "it must be positive");
    ExpectRefusedField(key, 1e300, kInvalidDflash, "is too large");
  }
  ExpectRefusedField("final_logit_softcapping", -1, kInvalidDflash, "it must be positive, or 0");
  json config = ZLab();
  config["dflash_config"]["final_logit_softcapping"] = 0;
  EXPECT_EQ(Read(config)->drafter.dflash.logit_cap, 0);
}

TEST_F(DflashConfigTest, RefusesFieldsThatItDoesNotKnow) {
  ExpectRefusedField("selector_depth", 2, kUnknownDflash, "do not know the field 'selector_depth'");
  json config = ZLab();
  config["conv_kernel_size"] = 2;
  ExpectRefused(config, kUnknownDflash, "do not know the field 'conv_kernel_size'");
  json flat = SpeculatorsDflash();
  flat["transformer_layer_config"]["num_target_layers"] = 36;
  ExpectRefused(flat, kUnknownDflash, "do not know the field 'num_target_layers'");
}

TEST_F(DflashConfigTest, RefusesOtherDraftersOfSpeculators) {
  const std::pair<const char*, json> others[] = {{"speculators_model_type", "dspark"},
                                                 {"sample_from_anchor", true},
                                                 {"draft_ffn_type", "moe"},
                                                 {"draft_vocab_size", 500},
                                                 {"target_hidden_size", 320}};
  for (const auto& [key, value] : others) {
    json config = SpeculatorsDflash();
    config[key] = value;
    ExpectRefused(config, kUnknownDflash, std::string("'") + key + "' is " + value.dump());
  }
  json config = SpeculatorsDflash();
  config.erase("aux_hidden_state_layer_ids");
  ExpectRefused(config, kInvalidDflash, "must list the layers");
  config["aux_hidden_state_layer_ids"] = {3, -1};
  ExpectRefused(config, kInvalidDflash, "lists layer -1");
}

// `transformers` would ignore the window, and other programs would not.
TEST_F(DflashConfigTest, WindowLayersNeedAWindow) {
  for (const char* key : {"use_sliding_window", "sliding_window"}) {
    json config = ZLab();
    config.erase(key);
    ExpectRefused(config, kInvalidDflash, "'sliding_window' must be set and use_sliding_window");
  }
}

}  // namespace
}  // namespace bastion::hub
