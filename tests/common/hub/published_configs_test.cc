// The config.json files of published models load unchanged, and what they say is understood.
#include <nlohmann/json.hpp>

#include "common/hub/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSmolLM2 = R"({"architectures": ["LlamaForCausalLM"],
    "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.0416,
    "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192,
    "mlp_bias": false, "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
    "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.42.3",
    "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
    "use_cache": true, "vocab_size": 49152})";
constexpr const char* kTinyLlama = R"({"architectures": ["LlamaForCausalLM"],
    "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
    "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "transformers_version": "4.35.0", "use_cache": true,
    "vocab_size": 32000})";
constexpr const char* kVicuna = R"({"_name_or_path": "vicuna-7b-v1.5-16k",
    "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "max_sequence_length": 16384,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 32, "pad_token_id": 0, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 4.0, "type": "linear"}, "tie_word_embeddings": false,
    "torch_dtype": "float16", "transformers_version": "4.31.0", "use_cache": true,
    "vocab_size": 32000})";
constexpr const char* kQwen25 = R"({"architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu",
    "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
    "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
    "use_cache": true, "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})";
constexpr const char* kMistral = R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})";
constexpr const char* kSmolLM3 = R"({"architectures": ["SmolLM3ForCausalLM"],
    "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 12,
    "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
    "intermediate_size": 11008, "max_position_embeddings": 65536, "max_window_layers": 28,
    "mlp_bias": false, "model_type": "smollm3", "no_rope_layer_interval": 4,
    "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "num_attention_heads": 16, "num_hidden_layers": 8,
    "num_key_value_heads": 4, "pad_token_id": 4, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null,
    "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0", "use_cache": false,
    "use_sliding_window": false, "vocab_size": 128256})";

class PublishedConfigsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadTargetConfig(folder_.path());
  }
  absl::StatusOr<ModelConfig> Read(const char* text) { return Read(json::parse(text)); }
  void ExpectRefused(const json& config, absl::StatusCode code, const std::string& reason) {
    const absl::Status status = Read(config).status();
    EXPECT_EQ(status.code(), code) << reason << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr(reason));
  }
  // The text of a config with one more field.
  static json With(const char* text, const char* key, const json& value) {
    json config = json::parse(text);
    config[key] = value;
    return config;
  }
  testing::TempFolder folder_;
};

TEST_F(PublishedConfigsTest, FieldsOfExportersChangeNothing) {
  const auto smol = Read(kSmolLM2);
  ASSERT_TRUE(smol.ok()) << smol.status();
  EXPECT_EQ(smol->dims.head_dim, 64);
  EXPECT_EQ(smol->blocks.rope.theta, 100000);
  EXPECT_TRUE(Read(kTinyLlama).ok());
  for (const char* key : {"model_max_length", "attn_implementation", "max_sequence_length"}) {
    EXPECT_TRUE(Read(With(kTinyLlama, key, 4096)).ok()) << key;
  }
  ExpectRefused(With(kSmolLM2, "rope_interleaved", true), absl::StatusCode::kUnimplemented,
                "'rope_interleaved' is true");
  ExpectRefused(With(kQwen25, "use_mrope", true), absl::StatusCode::kUnimplemented, "'use_mrope'");
}

TEST_F(PublishedConfigsTest, RotaryScalingIsReadByItsType) {
  const auto vicuna = Read(kVicuna);
  ASSERT_TRUE(vicuna.ok()) << vicuna.status();
  EXPECT_EQ(vicuna->blocks.rope.linear_factor, 4);
  const json yarn = {{"factor", 4.0}, {"original_max_position_embeddings", 8192}, {"type", "yarn"}};
  const auto qwen = Read(With(kQwen25, "rope_scaling", yarn));
  ASSERT_TRUE(qwen.ok()) << qwen.status();
  ASSERT_TRUE(qwen->blocks.rope.yarn.has_value());
  EXPECT_EQ(qwen->blocks.rope.yarn->factor, 4);
  EXPECT_EQ(qwen->blocks.rope.yarn->original_positions, 8192);
  EXPECT_NEAR(qwen->blocks.rope.yarn->attention_factor, 1.138629, 1e-6) << "0.1 ln 4 + 1";
  json scales = yarn;
  scales["mscale"] = 2.0;
  scales["mscale_all_dim"] = 1.0;
  EXPECT_NEAR(Read(With(kQwen25, "rope_scaling", scales))->blocks.rope.yarn->attention_factor,
              1.277259 / 1.138629, 1e-6);
  EXPECT_TRUE(Read(With(kVicuna, "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}})).ok());
  ExpectRefused(With(kVicuna, "rope_scaling", {{"type", "dynamic"}}),
                absl::StatusCode::kInvalidArgument, "'factor' is missing");
  ExpectRefused(With(kVicuna, "rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}),
                absl::StatusCode::kUnimplemented, "'longrope' are not supported");
  json unknown = yarn;
  unknown["low_freq_factor"] = 1.0;
  ExpectRefused(With(kQwen25, "rope_scaling", unknown), absl::StatusCode::kUnimplemented,
                "'low_freq_factor'");
}

TEST_F(PublishedConfigsTest, Qwen2HasBiasesOfQueriesKeysAndValues) {
  const auto config = Read(kQwen25);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->blocks.qkv_bias);
  EXPECT_FALSE(config->blocks.output_bias || config->blocks.mlp_bias);
  EXPECT_FALSE(config->blocks.query_key_norm);
  EXPECT_THAT(config->sliding_windows, Each(0)) << "use_sliding_window is false";
}

TEST_F(PublishedConfigsTest, MistralHasTheWindowInEveryLayer) {
  EXPECT_THAT(Read(kMistral)->sliding_windows, Each(4096));
  EXPECT_THAT(Read(With(kMistral, "sliding_window", nullptr))->sliding_windows, Each(0));
  json absent = json::parse(kMistral);
  absent.erase("sliding_window");
  EXPECT_THAT(Read(absent)->sliding_windows, Each(4096)) << "the default of `transformers`";
  ExpectRefused(With(kMistral, "sliding_window", 0), absl::StatusCode::kInvalidArgument,
                "'sliding_window' is 0");
}

TEST_F(PublishedConfigsTest, SmolLM3HasLayersWithoutRotaryEmbedding) {
  const auto config = Read(kSmolLM3);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->blocks.rope.layers,
              ElementsAre(true, true, true, false, true, true, true, false));
  EXPECT_TRUE(config->tie_word_embeddings) << "the default of `transformers`";
  EXPECT_THAT(Read(With(kSmolLM3, "no_rope_layers", nullptr))->blocks.rope.layers,
              config->blocks.rope.layers);
  ExpectRefused(With(kSmolLM3, "no_rope_layers", {1, 0}), absl::StatusCode::kInvalidArgument,
                "has 2 entries for 8 layers");
  EXPECT_THAT(Read(kTinyLlama)->blocks.rope.layers, Each(true));
}

}  // namespace
}  // namespace bastion::hub
