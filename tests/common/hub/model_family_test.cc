// The families of model_family.cc: what their config.json files mean, and what is refused.
#include "common/hub/model_family.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kUnknownConfig = absl::StatusCode::kUnimplemented;
constexpr auto kInvalidConfig = absl::StatusCode::kInvalidArgument;

// As Llama 3.2 1B, with all fields that `transformers` 4 writes for it.
json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 128000},
          {"eos_token_id", {128001, 128008, 128009}},
          {"head_dim", 64},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"initializer_range", 0.02},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 16},
          {"num_key_value_heads", 8},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling",
           {{"factor", 32.0},
            {"high_freq_factor", 4.0},
            {"low_freq_factor", 1.0},
            {"original_max_position_embeddings", 8192},
            {"rope_type", "llama3"}}},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.45.0.dev0"},
          {"use_cache", true},
          {"vocab_size", 128256}};
}

// As Pythia 2.8B.
json Pythia() {
  return {{"architectures", {"GPTNeoXForCausalLM"}},
          {"bos_token_id", 0},
          {"eos_token_id", 0},
          {"hidden_act", "gelu"},
          {"hidden_size", 2560},
          {"initializer_range", 0.02},
          {"intermediate_size", 10240},
          {"layer_norm_eps", 1e-05},
          {"max_position_embeddings", 2048},
          {"model_type", "gpt_neox"},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 32},
          {"rotary_emb_base", 10000},
          {"rotary_pct", 0.25},
          {"tie_word_embeddings", false},
          {"torch_dtype", "float16"},
          {"transformers_version", "4.24.0"},
          {"use_cache", true},
          {"use_parallel_residual", true},
          {"vocab_size", 50304}};
}

class ModelFamilyTest : public ::testing::Test {
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
  static json With(json config, const char* key, const json& value) {
    config[key] = value;
    return config;
  }
  testing::TempFolder folder_;
};

TEST_F(ModelFamilyTest, ReadsALlamaTarget) {
  const auto config = Read(Llama());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kTarget);
  EXPECT_EQ(config->dims.kv_heads, 8);
  EXPECT_EQ(config->dims.head_dim, 64);
  EXPECT_EQ(config->max_positions, 131072);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_THAT(config->special.eos, ElementsAre(128001, 128008, 128009));
  const BlockConfig& blocks = config->blocks;
  EXPECT_EQ(blocks.norm, NormKind::kRms);
  EXPECT_EQ(blocks.norm_epsilon, 1e-5);
  EXPECT_EQ(blocks.mlp, MlpKind::kGatedSilu);
  EXPECT_FALSE(blocks.query_key_norm || blocks.qkv_bias || blocks.mlp_bias);
  EXPECT_FALSE(blocks.parallel_residual);
  EXPECT_EQ(blocks.rope.theta, 500000);
  EXPECT_EQ(blocks.rope.dims, 64);
  ASSERT_TRUE(blocks.rope.llama3.has_value());
  EXPECT_EQ(blocks.rope.llama3->factor, 32);
  EXPECT_EQ(blocks.rope.llama3->low_rotations, 1);
  EXPECT_EQ(blocks.rope.llama3->high_rotations, 4);
  EXPECT_EQ(blocks.rope.llama3->original_positions, 8192);
}

TEST_F(ModelFamilyTest, LlamaUsesTheDefaultsOfTransformers) {
  json config = Llama();
  for (const char* key :
       {"head_dim", "num_key_value_heads", "rope_scaling", "rope_theta", "max_position_embeddings",
        "rms_norm_eps", "bos_token_id", "eos_token_id", "tie_word_embeddings"}) {
    config.erase(key);
  }
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dims.head_dim, 64);
  EXPECT_EQ(read->dims.kv_heads, 32);
  EXPECT_EQ(read->max_positions, 2048);
  EXPECT_EQ(read->blocks.norm_epsilon, 1e-6);
  EXPECT_EQ(read->blocks.rope.theta, 10000);
  EXPECT_FALSE(read->blocks.rope.llama3.has_value());
  EXPECT_FALSE(read->tie_word_embeddings);
  EXPECT_THAT(read->special.bos, ElementsAre(1));
  EXPECT_THAT(read->special.eos, ElementsAre(2));
}

TEST_F(ModelFamilyTest, ATokenThatIsNullHasNoDefault) {
  const auto read = Read(With(With(Llama(), "eos_token_id", nullptr), "bos_token_id", nullptr));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->special.eos, IsEmpty());
  EXPECT_THAT(read->special.bos, IsEmpty());
}

TEST_F(ModelFamilyTest, ReadsRopeParametersOfTransformers5) {
  json config = Llama();
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = 7000;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"].erase("original_max_position_embeddings");
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->blocks.rope.theta, 7000);
  ASSERT_TRUE(read->blocks.rope.llama3.has_value());
  EXPECT_EQ(read->blocks.rope.llama3->original_positions, 131072) << "max_position_embeddings";
}

TEST_F(ModelFamilyTest, RefusesInvalidScaling) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    json config = Llama();
    config["rope_scaling"].erase(key);
    ExpectRefused(config, kInvalidConfig, std::string("'") + key + "' is missing");
    config["rope_scaling"][key] = 0;
    ExpectRefused(config, kInvalidConfig, std::string("'") + key + "' is 0; it must be positive");
  }
  json config = Llama();
  config["rope_scaling"]["high_freq_factor"] = 1;
  ExpectRefused(config, kInvalidConfig, "it must be greater than low_freq_factor, 1");
  config["rope_scaling"] = {{"rope_type", "longrope"}};
  ExpectRefused(config, kUnknownConfig, "type 'longrope'");
  config["rope_scaling"] = {{"rope_type", "default"}, {"mrope_section", {1, 2}}};
  ExpectRefused(config, kUnknownConfig, "do not know the field 'mrope_section'");
  config["rope_scaling"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  ExpectRefused(config, kUnknownConfig, "'partial_rotary_factor' is 0.5");
  config["rope_scaling"] = {{"rope_type", "default"}};
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 7}};
  ExpectRefused(config, kInvalidConfig, "'rope_scaling' differs from 'rope_parameters'");
}

TEST_F(ModelFamilyTest, RefusesHeadsThatDoNotDivideTheHiddenSize) {
  json config = With(Llama(), "hidden_size", 2049);
  config.erase("head_dim");
  ExpectRefused(config, kInvalidConfig,
                "is 2049, which is not a multiple of the 32 attention heads");
}

TEST_F(ModelFamilyTest, ReadsAPythiaTarget) {
  const auto config = Read(Pythia());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->dims.head_dim, 80);
  EXPECT_EQ(config->dims.kv_heads, 32);
  const BlockConfig& blocks = config->blocks;
  EXPECT_EQ(blocks.norm, NormKind::kLayer);
  EXPECT_EQ(blocks.norm_epsilon, 1e-5);
  EXPECT_EQ(blocks.mlp, MlpKind::kGelu);
  EXPECT_TRUE(blocks.qkv_bias && blocks.output_bias && blocks.mlp_bias && blocks.parallel_residual);
  EXPECT_FALSE(blocks.query_key_norm);
  EXPECT_EQ(blocks.rope.theta, 10000);
  EXPECT_EQ(blocks.rope.dims, 20);
  EXPECT_EQ(config->names.fused_qkv, "attention.query_key_value");
}

TEST_F(ModelFamilyTest, ReadsTheOtherFieldsOfGptNeoX) {
  json config = Pythia();
  config.erase("rotary_emb_base");
  config.erase("rotary_pct");
  const auto defaults = Read(config);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->blocks.rope.theta, 10000);
  EXPECT_EQ(defaults->blocks.rope.dims, 20);
  config["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 500.0}, {"partial_rotary_factor", 0.4}};
  config["use_parallel_residual"] = false;
  config["attention_bias"] = false;
  config["is_decoder"] = true;
  config["classifier_dropout"] = 0.1;
  config["attention_dropout"] = 0.1;
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->blocks.rope.theta, 500);
  EXPECT_EQ(read->blocks.rope.dims, 32);
  EXPECT_FALSE(read->blocks.parallel_residual);
  EXPECT_FALSE(read->blocks.qkv_bias || read->blocks.output_bias);
  EXPECT_TRUE(read->blocks.mlp_bias);
}

TEST_F(ModelFamilyTest, RefusesWhatGptNeoXDoesNotImplement) {
  for (const char* kind : {"gelu_fast", "gelu_new", "gelu_pytorch_tanh", "relu"}) {
    ExpectRefused(With(Pythia(), "hidden_act", kind), kUnknownConfig,
                  std::string("'hidden_act' is \"") + kind + "\"; the engines support only");
  }
  ExpectRefused(With(Pythia(), "head_dim", 64), kUnknownConfig, "do not know the field 'head_dim'");
  ExpectRefused(With(Pythia(), "num_key_value_heads", 8), kUnknownConfig, "'num_key_value_heads'");
  ExpectRefused(With(Pythia(), "rotary_pct", 0.01), kInvalidConfig,
                "'rotary_pct' makes 0 of the 80 elements of a head rotate");
  ExpectRefused(With(Pythia(), "rotary_pct", 0.2626), kInvalidConfig, "makes 21 of the 80");
}

TEST_F(ModelFamilyTest, RefusesFieldsThatMayChangeTheComputation) {
  for (const json& config : {Llama(), Pythia()}) {
    for (const char* key : {"quantization_config", "sliding_window", "logit_scale", "qk_norm"}) {
      ExpectRefused(With(config, key, {{"a", 1}}), kUnknownConfig,
                    std::string("do not know the field '") + key + "'");
    }
    ExpectRefused(With(config, "is_encoder_decoder", true), kUnknownConfig,
                  "'is_encoder_decoder' is true; the engines support only false");
  }
  ExpectRefused(With(Llama(), "attention_bias", true), kUnknownConfig, "'attention_bias' is true");
  ExpectRefused(With(Llama(), "mlp_bias", true), kUnknownConfig, "'mlp_bias' is true");
}

TEST_F(ModelFamilyTest, AcceptsFieldsThatDoNotChangeTheComputation) {
  for (json config : {Llama(), Pythia()}) {
    config["_name_or_path"] = "here";
    config["_attn_implementation_autoset"] = true;
    config["quantization_config"] = nullptr;
    config["output_attentions"] = true;
    config["temperature"] = 0.7;
    config["pad_token_id"] = 5;
    config["auto_map"] = {{"AutoModel", "x.Y"}};
    const auto read = Read(config);
    EXPECT_TRUE(read.ok()) << read.status();
  }
}

TEST_F(ModelFamilyTest, EveryFamilyIsFoundByItsName) {
  for (const ModelFamily& family : ModelFamilies()) {
    EXPECT_EQ(FindFamily(family.architecture), &family);
  }
  EXPECT_EQ(FindFamily("llama"), nullptr);
}

TEST_F(ModelFamilyTest, ATargetIsNotADrafter) {
  folder_.Write("config.json", Llama().dump());
  EXPECT_TRUE(ReadTargetConfig(folder_.path()).ok());
  json drafter = With(Llama(), "architectures", {"DFlashDraftModel"});
  for (const char* key : {"mlp_bias", "rope_scaling"}) drafter.erase(key);
  drafter["block_size"] = 8;
  drafter["num_target_layers"] = 20;
  drafter["dflash_config"] = {{"mask_token_id", 1}};
  folder_.Write("config.json", drafter.dump());
  EXPECT_THAT(ReadTargetConfig(folder_.path()).status().message(),
              HasSubstr("DFlashDraftModel is a drafter; use the target's folder"));
}

}  // namespace
}  // namespace bastion::hub
