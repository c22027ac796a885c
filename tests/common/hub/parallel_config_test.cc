// The config.json of P-EAGLE drafters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/hub/model_config.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ParallelConfigTest : public ::testing::Test {
 protected:
  static json DecoderFields() {
    return {{"attention_bias", false},    {"head_dim", 128},
            {"hidden_act", "silu"},       {"hidden_size", 4096},
            {"intermediate_size", 12288}, {"max_position_embeddings", 40960},
            {"num_attention_heads", 32},  {"num_hidden_layers", 4},
            {"num_key_value_heads", 8},   {"rms_norm_eps", 1e-06},
            {"rope_theta", 1000000},      {"vocab_size", 151936}};
  }
  // As speculators writes it for Qwen3-8B.
  static json Nested() {
    json block = DecoderFields();
    block["model_type"] = "qwen3";
    return {{"architectures", {"PEagleDraftModel"}},
            {"draft_vocab_size", 32000},
            {"eagle_aux_hidden_state_layer_ids", {2, 18, 33}},
            {"embed_requires_grad", true},
            {"mask_token_id", 151643},
            {"norm_before_residual", false},
            {"speculators_config",
             {{"algorithm", "peagle"},
              {"proposal_methods", {{{"proposal_type", "greedy"}, {"speculative_tokens", 6}}}}}},
            {"speculators_model_type", "peagle"},
            {"transformer_layer_config", block}};
  }
  // As other programs write it.
  static json Flat() {
    json config = DecoderFields();
    config["architectures"] = {"LlamaForCausalLMEagle3"};
    config["draft_vocab_size"] = 32000;
    config["ptd_token_id"] = 151669;
    return config;
  }
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  void ExpectUnread(json config, const char* key, const json& value, absl::StatusCode code,
                    const std::string& reason) {
    config[key] = value;
    const absl::Status status = Read(config).status();
    EXPECT_EQ(status.code(), code) << key << " " << value << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json"), HasSubstr(reason))) << key;
  }

  testing::TempFolder folder_;
};

TEST_F(ParallelConfigTest, SpeculatorsNamesTheMaskAndTheNumberOfTokens) {
  const auto config = Read(Nested());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kParallelEagle);
  EXPECT_EQ(config->dims.layers, 4);
  EXPECT_EQ(config->drafter.eagle.mask_token, 151643);
  EXPECT_EQ(config->drafter.eagle.positions, 6);
  EXPECT_EQ(config->drafter.head.vocabulary, 32000);
  EXPECT_THAT(config->drafter.head.target_layers, ElementsAre(1, 17, 32));
  EXPECT_THAT(ReadTargetConfig(folder_.path()).status().message(), HasSubstr("is a drafter"));
}

TEST_F(ParallelConfigTest, TheMaskDistinguishesOtherFormatsFromEagle) {
  for (const char* field : {"ptd_token_id", "pard_token"}) {
    json flat = Flat();
    flat.erase("ptd_token_id");
    flat[field] = 151669;
    const auto config = Read(flat);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->kind, ModelKind::kParallelEagle);
    EXPECT_EQ(config->drafter.eagle.mask_token, 151669);
    EXPECT_EQ(config->drafter.eagle.positions, 8);
  }
  json eagle = Flat();
  eagle.erase("ptd_token_id");
  eagle["mask_token_id"] = 3;  // The tokenizer's.
  eagle["num_hidden_layers"] = 1;
  EXPECT_EQ(Read(eagle)->kind, ModelKind::kEagle);
}

TEST_F(ParallelConfigTest, RefusesWhatItCannotRun) {
  constexpr auto kWrong = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  ExpectUnread(Nested(), "mask_token_id", nullptr, kWrong, "'mask_token_id' is missing");
  ExpectUnread(Nested(), "mask_token_id", 151936, kWrong, "outside the vocabulary of 151936");
  ExpectUnread(Flat(), "ptd_token_id", -1, kWrong, "outside the vocabulary");
  ExpectUnread(Nested(), "speculators_model_type", "eagle3", kUnknown, "speculators_model_type");
  for (const int tokens : {0, 65}) {
    ExpectUnread(Nested(), "speculators_config",
                 {{"proposal_methods", {{{"speculative_tokens", tokens}}}}}, kWrong,
                 "'speculative_tokens' is " + std::to_string(tokens));
  }
}

TEST(ParallelEagleGoldensTest, ListTheLayersOfTheirFeatures) {
  const std::vector<std::string> names = testing::ParallelEagleGoldens();
  EXPECT_EQ(names.size(), 2u);
  for (const std::string& name : names) {
    const auto drafter = ReadModelConfig(testing::GoldenFolder(name) + "/drafter");
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    EXPECT_EQ(drafter->drafter.head.target_layers, testing::GoldenFeatureLayers(name)) << name;
  }
}

}  // namespace
}  // namespace bastion::hub
