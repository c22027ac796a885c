// The config.json of Medusa heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class MedusaConfigTest : public ::testing::Test {
 protected:
  // As FasterDecoding's heads for Vicuna-7B.
  static json Published() {
    return {{"base_model_name_or_path", "lmsys/vicuna-7b-v1.3"},
            {"medusa_num_heads", 2},
            {"medusa_num_layers", 1},
            {"transformers_version", "4.31.0"}};
  }
  absl::StatusOr<ModelConfig> Read(const json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path());
  }
  void ExpectUnread(const char* key, const json& value, absl::StatusCode code,
                    const std::string& reason) {
    json config = Published();
    config[key] = value;
    const absl::Status status = Read(config).status();
    EXPECT_EQ(status.code(), code) << key << " " << value << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json"), HasSubstr(reason))) << key;
  }

  testing::TempFolder folder_;
};

TEST_F(MedusaConfigTest, NamesNoDimensions) {
  const auto config = Read(Published());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, ModelKind::kMedusa);
  EXPECT_EQ(config->dims.hidden, 0);
  EXPECT_EQ(config->dims.vocabulary, 0);
  EXPECT_THAT(ReadTargetConfig(folder_.path()).status().message(), HasSubstr("is a drafter"));
}

TEST_F(MedusaConfigTest, MayNameTheDimensionsOfItsTarget) {
  json named = Published();
  named["hidden_size"] = 4096;
  named["vocab_size"] = 32000;
  named["version"] = "2";
  named["architectures"] = {"MedusaModel"};
  const auto config = Read(named);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->dims.hidden, 4096);
  EXPECT_EQ(config->dims.vocabulary, 32000);
}

TEST_F(MedusaConfigTest, RefusesWhatItDoesNotKnow) {
  constexpr auto kWrong = absl::StatusCode::kInvalidArgument;
  ExpectUnread("medusa_num_heads", 0, kWrong, "it must be positive");
  ExpectUnread("medusa_num_heads", "five", kWrong, "medusa_num_heads");
  ExpectUnread("medusa_num_layers", -1, kWrong, "it must be positive");
  ExpectUnread("hidden_size", 0, kWrong, "it must be positive");
  ExpectUnread("medusa_fc_bias", true, absl::StatusCode::kUnimplemented, "do not know the field");
  // A whole model, with heads or without.
  ExpectUnread("num_hidden_layers", 32, absl::StatusCode::kUnimplemented, "do not know the field");
}

TEST_F(MedusaConfigTest, ThePickleOfTheAuthorsIsRefusedWithTheCommandThatConvertsIt) {
  folder_.Write("medusa_lm_head.pt", "x");
  EXPECT_THAT(Checkpoint::Open(folder_.path()).status().message(),
              AllOf(HasSubstr("medusa_lm_head.pt is a pickle"), HasSubstr("python3 -c"),
                    HasSubstr("weights_only=True")));
}

TEST(MedusaGoldensTest, HaveMedusaHeads) {
  EXPECT_EQ(testing::MedusaGoldens().size(), 2u);
  for (const std::string& name : testing::MedusaGoldens()) {
    EXPECT_TRUE(Checkpoint::Open(testing::GoldenFolder(name) + "/drafter").ok()) << name;
  }
}

}  // namespace
}  // namespace bastion::hub
