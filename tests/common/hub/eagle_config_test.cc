// EAGLE-3 drafters: what the config.json of each program that writes them means, and what is
// refused.
#include "common/hub/eagle_config.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalidEagle = absl::StatusCode::kInvalidArgument;
constexpr auto kUnknownEagle = absl::StatusCode::kUnimplemented;

// As SafeAILab's drafter for Llama 3.1 8B.
json SafeAiLab() {
  return {{"architectures", {"LlamaForCausalLM"}},
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
          {"num_hidden_layers", 1},
          {"pad_token_id", 0},
          {"rms_norm_eps", 1e-05},
          {"tie_word_embeddings", false},
          {"torch_dtype", "float16"},
          {"transformers_version", "4.28.1"},
          {"use_cache", true},
          {"vocab_size", 128256},
          {"draft_vocab_size", 32000}};
}

// As SpecForge's drafter for Qwen3-235B.
json SpecForge() {
  return {{"architectures", {"LlamaForCausalLMEagle3"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 151643},
          {"eos_token_id", 151645},
          {"eagle_config",
           {{"eagle_aux_hidden_state_layer_ids", {1, 46, 90}}, {"use_aux_hidden_state", true}}},
          {"fc_norm", true},
          {"head_dim", 128},
          {"hidden_act", "silu"},
          {"hidden_size", 4096},
          {"initializer_range", 0.02},
          {"intermediate_size", 24576},
          {"max_position_embeddings", 40960},
          {"max_window_layers", 94},
          {"model_type", "llama"},
          {"norm_output", true},
          {"num_attention_heads", 64},
          {"num_hidden_layers", 1},
          {"num_key_value_heads", 4},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.51.0"},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vocab_size", 151936},
          {"draft_vocab_size", 32000}};
}

// As AngelSlim's drafter for Qwen3-1.7B, whose target ties its embedding to its head.
json AngelSlim() {
  json config = SpecForge();
  config["architectures"] = {"Eagle3LlamaForCausalLM"};
  config["target_model_type"] = "qwen3";
  config["tie_word_embeddings"] = true;
  for (const char* key : {"eagle_config", "fc_norm", "norm_output"}) config.erase(key);
  return config;
}

json Speculators() {
  json block = SpecForge();
  for (const char* key : {"architectures", "draft_vocab_size", "eagle_config", "fc_norm",
                          "norm_output", "torch_dtype"}) {
    block.erase(key);
  }
  block["model_type"] = "qwen3";
  block["layer_types"] = {"full_attention"};
  return {{"architectures", {"Eagle3DraftModel"}},
          {"draft_vocab_size", 32000},
          {"eagle_aux_hidden_state_layer_ids", {2, 18, 33}},
          {"embed_requires_grad", false},
          {"fc_norm", false},
          {"has_no_defaults_at_init", false},
          {"norm_before_fc", true},
          {"norm_before_residual", true},
          {"norm_output", true},
          {"speculators_config",
           {{"algorithm", "eagle3"}, {"verifier", {{"name_or_path", "Qwen/Qwen3-8B"}}}}},
          {"speculators_model_type", "eagle3"},
          {"speculators_version", "0.3.0"},
          {"target_hidden_size", nullptr},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"transformer_layer_config", block},
          {"transformers_version", "4.57.1"}};
}

class EagleConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  // Reads `config` with `key` set to `value`.
  absl::StatusOr<ModelConfig> ReadWith(json config, const char* key, const json& value) {
    config[key] = value;
    return Read(config);
  }
  void ExpectRefused(const json& config, const char* key, const json& value, absl::StatusCode code,
                     const std::string& reason) {
    const absl::Status status = ReadWith(config, key, value).status();
    EXPECT_EQ(status.code(), code) << key << " " << value << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json"), HasSubstr(reason))) << key;
  }
  testing::TempFolder folder_;
};

TEST_F(EagleConfigTest, ReadsADrafterOfSafeAiLab) {
  const auto config = Read(SafeAiLab());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kEagle);
  EXPECT_EQ(config->dims.layers, 1);
  EXPECT_EQ(config->dims.head_dim, 128) << "hidden_size / num_attention_heads";
  EXPECT_EQ(config->dims.vocabulary, 128256);
  EXPECT_EQ(config->blocks.rope.theta, 10000) << "not that of the target";
  EXPECT_EQ(config->dtype, DType::kF16);
  EXPECT_EQ(config->names.embedding, "embed_tokens");
  EXPECT_EQ(config->names.blocks, "layers.");
  EXPECT_EQ(config->names.final_norm, "norm");
  EXPECT_EQ(config->names.head, "lm_head");
  EXPECT_EQ(config->names.query_norm, "self_attn.q_norm");
  const EagleConfig& eagle = config->drafter.eagle;
  EXPECT_EQ(config->drafter.head.vocabulary, 32000);
  EXPECT_EQ(config->drafter.head.target_hidden, 4096);
  EXPECT_THAT(config->drafter.head.target_layers, IsEmpty());
  EXPECT_FALSE(eagle.norm_before_residual || eagle.norm_output);
}

TEST_F(EagleConfigTest, ADraftVocabularyTellsDraftersFromTargets) {
  json config = SafeAiLab();
  config.erase("architectures");
  const auto unnamed = Read(config);
  ASSERT_TRUE(unnamed.ok()) << unnamed.status();
  EXPECT_EQ(unnamed->kind, ModelKind::kEagle);
  EXPECT_EQ(unnamed->architecture, "LlamaForCausalLMEagle3");
  config.erase("draft_vocab_size");
  EXPECT_THAT(Read(config).status().message(), HasSubstr("'architectures' must be a list"));
  EXPECT_EQ(ReadWith(SafeAiLab(), "draft_vocab_size", nullptr)->kind, ModelKind::kTarget);
}

TEST_F(EagleConfigTest, ReadsADrafterOfSpecForge) {
  const auto config = Read(SpecForge());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kEagle);
  EXPECT_EQ(config->architecture, "LlamaForCausalLMEagle3");
  EXPECT_EQ(config->dims.head_dim, 128);
  EXPECT_EQ(config->blocks.rope.theta, 1e6);
  EXPECT_THAT(config->sliding_windows, ElementsAre(0));
  EXPECT_THAT(config->drafter.head.target_layers, ElementsAre(1, 46, 90));
  EXPECT_FALSE(config->drafter.eagle.norm_output) << "the field only says that a norm precedes "
                                                     "the head";
  ExpectRefused(SpecForge(), "norm_output", false, kUnknownEagle, "'norm_output' is false");
}

TEST_F(EagleConfigTest, ReadsADrafterOfAngelSlim) {
  const auto config = Read(AngelSlim());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kEagle);
  EXPECT_EQ(config->architecture, "Eagle3LlamaForCausalLM");
  EXPECT_FALSE(config->tie_word_embeddings) << "the drafter has a head of its own";
}

TEST_F(EagleConfigTest, ReadsADrafterOfSpeculators) {
  const auto config = Read(Speculators());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kEagle);
  EXPECT_EQ(config->dims.query_heads, 64);
  EXPECT_EQ(config->dims.vocabulary, 151936);
  EXPECT_EQ(config->blocks.rope.theta, 1e6);
  EXPECT_EQ(config->dtype, DType::kBF16) << "the field beside the object";
  EXPECT_THAT(config->special.eos, ElementsAre(151645));
  const EagleConfig& eagle = config->drafter.eagle;
  EXPECT_EQ(config->drafter.head.vocabulary, 32000);
  EXPECT_EQ(config->drafter.head.target_hidden, 4096);
  EXPECT_THAT(config->drafter.head.target_layers, ElementsAre(1, 17, 32));
  EXPECT_TRUE(eagle.norm_before_residual);
  EXPECT_TRUE(eagle.norm_output);
  EXPECT_TRUE(ReadWith(Speculators(), "architectures", {"Eagle3Speculator"}).ok());
}

TEST_F(EagleConfigTest, SpeculatorsHaveDefaults) {
  json config = Speculators();
  for (const char* key : {"draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "fc_norm",
                          "norm_before_fc", "norm_before_residual", "norm_output", "torch_dtype"}) {
    config.erase(key);
  }
  config["transformer_layer_config"]["torch_dtype"] = "float16";
  const auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->drafter.head.vocabulary, 151936);
  EXPECT_THAT(read->drafter.head.target_layers, IsEmpty());
  EXPECT_FALSE(read->drafter.eagle.norm_before_residual || read->drafter.eagle.norm_output);
  EXPECT_EQ(read->dtype, DType::kF16);
}

TEST_F(EagleConfigTest, SpeculatorsSeparateTheFieldsOfTheBlock) {
  json config = Speculators();
  ExpectRefused(config, "hidden_size", 4096, kUnknownEagle, "do not know the field 'hidden_size'");
  ExpectRefused(config, "speculators_model_type", "peagle", kUnknownEagle,
                "'speculators_model_type' is \"peagle\"");
  ExpectRefused(config, "transformer_layer_config", nullptr, kInvalidEagle,
                "'transformer_layer_config': 'num_hidden_layers' is missing");
  json block = config["transformer_layer_config"];
  block["norm_output"] = true;
  ExpectRefused(config, "transformer_layer_config", block, kUnknownEagle,
                "do not know the field 'norm_output'");
  block = config["transformer_layer_config"];
  block["layer_types"] = {"sliding_attention"};
  ExpectRefused(config, "transformer_layer_config", block, kInvalidEagle,
                "'sliding_window' must be set");
}

TEST_F(EagleConfigTest, TheDraftVocabularyMayBeTheWholeVocabulary) {
  for (const json& all : {json(), json(151936)}) {
    const auto config = ReadWith(SpecForge(), "draft_vocab_size", all);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->drafter.head.vocabulary, 151936);
  }
  ExpectRefused(SpecForge(), "draft_vocab_size", 151937, kInvalidEagle,
                "is 151937, which is more than the vocabulary of 151936");
  ExpectRefused(SpecForge(), "draft_vocab_size", 0, kInvalidEagle, "it must be positive");
}

TEST_F(EagleConfigTest, TheTargetMayHaveAnotherWidth) {
  EXPECT_EQ(ReadWith(SpecForge(), "target_hidden_size", 7168)->drafter.head.target_hidden, 7168);
  ExpectRefused(SpecForge(), "target_hidden_size", -1, kInvalidEagle, "it must be positive");
}

// Lists that begin with 1 count the outputs of layers, others the inputs.
TEST_F(EagleConfigTest, LayersMayBeListedInTwoPlacesAndTwoWays) {
  constexpr const char* kList = "eagle_aux_hidden_state_layer_ids";
  json config = AngelSlim();
  EXPECT_THAT(ReadWith(config, kList, {2, 14, 25})->drafter.head.target_layers,
              ElementsAre(1, 13, 24));
  EXPECT_THAT(ReadWith(config, kList, {1, 13, 24})->drafter.head.target_layers,
              ElementsAre(1, 13, 24));
  config["eagle_config"] = {{kList, {24, 30, 36}}};
  EXPECT_THAT(Read(config)->drafter.head.target_layers, ElementsAre(23, 29, 35));
  EXPECT_TRUE(ReadWith(config, kList, {24, 30, 36}).ok());
  ExpectRefused(config, kList, {2, 30, 36}, kInvalidEagle, "differs from that in 'eagle_config'");
  ExpectRefused(AngelSlim(), kList, {0, 13, 24}, kInvalidEagle, "lists 0; it must list numbers");
  ExpectRefused(AngelSlim(), kList, {2, 13, 10001}, kInvalidEagle, "lists 10001;");
  ExpectRefused(AngelSlim(), kList, "all", kInvalidEagle, "must be an integer or a list");
  ExpectRefused(AngelSlim(), "eagle_config", {{kList, {-3}}}, kInvalidEagle,
                "'eagle_config': 'eagle_aux_hidden_state_layer_ids' lists -3");
}

TEST_F(EagleConfigTest, TheTensorsDecideAboutNormsOfFeatures) {
  for (const char* key : {"norm_before_fc", "fc_norm"}) {
    for (const bool value : {true, false}) {
      EXPECT_TRUE(ReadWith(SpecForge(), key, value).ok());
      EXPECT_TRUE(ReadWith(Speculators(), key, value).ok());
    }
    ExpectRefused(SpecForge(), key, 1, kInvalidEagle, "must be true or false");
  }
  ExpectRefused(Speculators(), "norm_before_residual", "yes", kInvalidEagle,
                "must be true or false");
  ExpectRefused(Speculators(), "norm_output", 1, kInvalidEagle, "must be true or false");
}

TEST_F(EagleConfigTest, RefusesWhatItDoesNotImplement) {
  ExpectRefused(SpecForge(), "eagle_config", {{"use_aux_hidden_state", false}}, kUnknownEagle,
                "'use_aux_hidden_state' is false: this drafter reads the last state");
  ExpectRefused(SpecForge(), "eagle_config", {{"use_mtp_layernorm", true}}, kUnknownEagle,
                "'use_mtp_layernorm' is true");
  ExpectRefused(SpecForge(), "eagle_config", {{"rank", 8}}, kUnknownEagle,
                "do not know the field 'rank'");
  ExpectRefused(SpecForge(), "eagle_config", 3, kInvalidEagle, "must be an object");
  ExpectRefused(SpecForge(), "num_hidden_layers", 2, kUnknownEagle,
                "'num_hidden_layers' is 2; the engines implement only");
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    ExpectRefused(SpecForge(), key, true, kUnknownEagle, std::string("'") + key + "' is true");
  }
  ExpectRefused(SpecForge(), "hidden_act", "gelu", kUnknownEagle, "'hidden_act' is \"gelu\"");
  ExpectRefused(SpecForge(), "mask_hidden", 3, kUnknownEagle, "do not know the field");
  ExpectRefused(SpecForge(), "architectures", {"Eagle3Qwen4"}, kInvalidEagle,
                "DFlashDraftModel, DFlash2DraftModel, DFlash2Speculator, "
                "LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, "
                "Eagle3Speculator, Eagle3DraftModel");
}

TEST_F(EagleConfigTest, IsNoTarget) {
  for (const json& config : {SafeAiLab(), SpecForge(), AngelSlim(), Speculators()}) {
    folder_.Write("config.json", config.dump());
    EXPECT_THAT(ReadTargetConfig(folder_.path()).status().message(), HasSubstr("is a drafter"));
  }
}

// The configs of the goldens, which a Python program wrote, name the layers that it read.
TEST(EagleGoldensTest, ListTheLayersOfTheirFeatures) {
  const std::vector<std::string> names = testing::EagleGoldens();
  EXPECT_EQ(names.size(), 6u);
  for (const std::string& name : names) {
    const auto target = ReadTargetConfig(testing::GoldenFolder(name) + "/target");
    const auto drafter = ReadModelConfig(testing::GoldenFolder(name) + "/drafter");
    ASSERT_TRUE(target.ok() && drafter.ok()) << target.status() << drafter.status();
    std::vector<int> layers = drafter->drafter.head.target_layers;
    if (layers.empty()) layers = DefaultEagleLayers(target->dims.layers);
    EXPECT_EQ(layers, testing::GoldenFeatureLayers(name)) << name;
  }
}

TEST(DefaultEagleLayersTest, OneLowOneInTheMiddleOneHigh) {
  EXPECT_THAT(DefaultEagleLayers(32), ElementsAre(1, 15, 28));
  EXPECT_THAT(DefaultEagleLayers(36), ElementsAre(1, 17, 32));
  EXPECT_THAT(DefaultEagleLayers(28), ElementsAre(1, 13, 24));
  EXPECT_THAT(DefaultEagleLayers(5), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace bastion::hub
