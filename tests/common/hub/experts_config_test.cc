// The mixture of experts of Qwen3-MoE: what its config.json means, and what is refused.
#include "common/hub/experts_config.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As Qwen3-30B-A3B, with fewer layers.
json Config() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 151643},
          {"decoder_sparse_step", 1},
          {"eos_token_id", 151645},
          {"head_dim", 128},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"initializer_range", 0.02},
          {"intermediate_size", 6144},
          {"max_position_embeddings", 40960},
          {"max_window_layers", 48},
          {"mlp_only_layers", json::array()},
          {"model_type", "qwen3_moe"},
          {"moe_intermediate_size", 768},
          {"norm_topk_prob", true},
          {"num_attention_heads", 32},
          {"num_experts", 128},
          {"num_experts_per_tok", 8},
          {"num_hidden_layers", 6},
          {"num_key_value_heads", 4},
          {"output_router_logits", false},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000.0},
          {"router_aux_loss_coef", 0.001},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.51.0"},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vocab_size", 151936}};
}

class ExpertsConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  void ExpectRefused(const char* key, const json& value, const std::string& reason) {
    json config = Config();
    config[key] = value;
    EXPECT_THAT(Read(config).status().message(), HasSubstr(reason)) << key;
  }
  testing::TempFolder folder_;
};

TEST_F(ExpertsConfigTest, ReadsAMixtureInEveryLayer) {
  const auto config = Read(Config());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->blocks.query_key_norm);
  const ExpertsConfig& experts = config->blocks.experts;
  EXPECT_EQ(experts.count, 128);
  EXPECT_EQ(experts.chosen, 8);
  EXPECT_EQ(experts.intermediate, 768);
  EXPECT_TRUE(experts.normalize);
  EXPECT_THAT(config->expert_layers, Each(true));
  EXPECT_EQ(config->expert_layers.size(), 6u);
}

TEST_F(ExpertsConfigTest, SomeLayersHaveAnMlp) {
  json config = Config();
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3, 4};
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->expert_layers, ElementsAre(false, true, false, false, false, true));
}

TEST_F(ExpertsConfigTest, ReadsTheKeysOfTransformers5) {
  json config = Config();
  config["num_local_experts"] = 16;
  for (const char* key :
       {"num_experts", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "head_dim"}) {
    config.erase(key);
  }
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->blocks.experts.count, 16);
  EXPECT_FALSE(read->blocks.experts.normalize);
  EXPECT_THAT(read->expert_layers, Each(true));
  EXPECT_EQ(read->dims.head_dim, 64) << "hidden_size / num_attention_heads";
}

TEST_F(ExpertsConfigTest, RefusesWhatItDoesNotImplement) {
  ExpectRefused("num_experts", nullptr, "'num_experts' is missing");
  ExpectRefused("num_experts", 0, "'num_experts' is 0; it must be positive");
  ExpectRefused("num_experts_per_tok", 129, "is 129, but there are only 128 experts");
  ExpectRefused("use_sliding_window", true, "'use_sliding_window' is true");
  ExpectRefused("shared_expert_intermediate_size", 64, "'shared_expert_intermediate_size'");
  ExpectRefused("mlp_only_layers", "all", "'mlp_only_layers' must be an integer or a list");
}

TEST_F(ExpertsConfigTest, OtherFamiliesHaveNoExperts) {
  json config = Config();
  config["architectures"] = {"Qwen3ForCausalLM"};
  EXPECT_THAT(Read(config).status().message(), HasSubstr("do not know the field"));
  for (const std::string& key : ExpertFields()) config.erase(key);
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->blocks.experts.count, 0);
  EXPECT_THAT(read->expert_layers, Each(false));
}

}  // namespace
}  // namespace bastion::hub
