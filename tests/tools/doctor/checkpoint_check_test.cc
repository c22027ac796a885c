// The doctor's verdict on a checkpoint is that of the services: it returns the same error, or none.
// Each test changes a copy of a small pair and loads it with the functions that the services call.
#include "tools/doctor/checkpoint_check.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/hub/safetensors.h"
#include "common/prior/transition_file.h"
#include "drafter_service/draft/dflash.h"
#include "engine/program/local_device.h"
#include "gmock/gmock.h"
#include "orchestrator/intake/served_model.h"
#include "tests/support/golden_file.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"
#include "tools/doctor/checkpoint_report.h"
#include "verifier_service/model/target_model.h"

namespace bastion::doctor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A change to a folder of the pair.
struct Damage {
  const char* name;
  const char* folder;    // "target" or "drafter"
  const char* service;   // That refuses the pair first.
  const char* expected;  // A part of its message.
  std::function<void(const std::string& folder)> apply;
};

void ChangeConfig(const std::string& folder, const char* key, const json& value) {
  json config = json::parse(std::ifstream(folder + "/config.json"));
  config[key] = value;
  std::ofstream(folder + "/config.json") << config;
}

// Writes model.safetensors again with the tensors that `change` leaves. It may change their shapes.
void ChangeTensors(const std::string& folder,
                   const std::function<void(std::vector<testing::TensorFixture>&)>& change) {
  const std::string path = folder + "/model.safetensors";
  std::vector<testing::TensorFixture> tensors;
  {
    const auto file = hub::SafetensorsFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    for (const std::string& name : file->TensorNames()) {
      const auto view = file->Tensor(name);
      ASSERT_TRUE(view.ok()) << view.status();
      tensors.push_back({name, SafetensorsName(view->dtype), view->shape,
                         std::string(static_cast<const char*>(view->data), view->bytes)});
    }
  }
  change(tensors);
  std::ofstream(path, std::ios::binary) << testing::SafetensorsFileOf(tensors);
}

testing::TensorFixture& Find(std::vector<testing::TensorFixture>& tensors,
                             const std::string& name) {
  for (testing::TensorFixture& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return tensors[0];
}

std::function<void(const std::string&)> Without(const std::string& name) {
  return [name](const std::string& folder) {
    ChangeTensors(folder, [&](std::vector<testing::TensorFixture>& tensors) {
      const auto named = [&](const testing::TensorFixture& tensor) { return tensor.name == name; };
      ASSERT_EQ(std::erase_if(tensors, named), 1u);
    });
  };
}

// Adds a tensor of one element.
std::function<void(const std::string&)> With(const std::string& name) {
  return [name](const std::string& folder) {
    ChangeTensors(folder, [&](std::vector<testing::TensorFixture>& tensors) {
      tensors.push_back({name, "F32", {1}, testing::CountingFloats(1)});
    });
  };
}

std::function<void(const std::string&)> Transposed(const std::string& name) {
  return [name](const std::string& folder) {
    ChangeTensors(folder, [&](std::vector<testing::TensorFixture>& tensors) {
      std::vector<int64_t>& shape = Find(tensors, name).shape;
      std::reverse(shape.begin(), shape.end());
    });
  };
}

std::function<void(const std::string&)> Config(const char* key, const json& value) {
  return [=](const std::string& folder) { ChangeConfig(folder, key, value); };
}

std::function<void(const std::string&)> Removed(const char* file) {
  return [=](const std::string& folder) { std::filesystem::remove(folder + "/" + file); };
}

std::function<void(const std::string&)> Written(const char* file, const std::string& text) {
  return [=](const std::string& folder) { std::ofstream(folder + "/" + file) << text; };
}

// A tokenizer of fewer than `size` tokens.
json SmallTokenizerJson(int size) {
  json tokenizer = testing::WordTokenizerJson({});
  json& vocabulary = tokenizer["model"]["vocab"];
  for (auto token = vocabulary.begin(); token != vocabulary.end();) {
    token = *token >= size ? vocabulary.erase(token) : std::next(token);
  }
  return tokenizer;
}

std::vector<Damage> Damages() {
  const char *verifier = "bastion-verifier", *drafter = "bastion-drafter",
             *orchestrator = "bastion-orchestrator";
  return {
      {"MissingTensor", "target", verifier, "no tensor 'model.layers.1.mlp.up_proj.weight'",
       Without("model.layers.1.mlp.up_proj.weight")},
      {"WrongShape", "target", verifier, "has shape",
       Transposed("model.layers.0.self_attn.k_proj.weight")},
      {"MissingNorm", "target", verifier, "no tensor 'model.norm.weight'",
       Without("model.norm.weight")},
      {"MissingEmbedding", "target", verifier, "no tensor 'model.embed_tokens.weight'",
       Without("model.embed_tokens.weight")},
      {"IntegerWeights", "target", verifier, "weights must be F32, BF16 or F16",
       [](const std::string& folder) {
         ChangeTensors(folder, [](std::vector<testing::TensorFixture>& tensors) {
           testing::TensorFixture& tensor = Find(tensors, "model.norm.weight");
           tensor.dtype = tensor.dtype == "F32" ? "I32" : "I16";
         });
       }},
      {"TruncatedWeights", "target", verifier, "model.safetensors",
       [](const std::string& folder) {
         const std::string file = folder + "/model.safetensors";
         std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
       }},
      {"UnknownArchitecture", "target", verifier, "names 'GPT2LMHeadModel'",
       Config("architectures", {"GPT2LMHeadModel"})},
      {"UnknownField", "target", verifier, "do not know the field 'quantization_config'",
       Config("quantization_config", {{"quant_method", "fp8"}})},
      {"UnreadTensor", "target", verifier, "'model.layers.0.self_attn.q_proj.bias' is not a part",
       With("model.layers.0.self_attn.q_proj.bias")},
      {"ScaledRope", "target", verifier, "rotary embeddings of type 'longrope'",
       Config("rope_scaling", {{"rope_type", "longrope"}})},
      {"Biases", "target", verifier, "attention_bias", Config("attention_bias", true)},
      {"OddHeads", "target", verifier, "head_dim is 8", Config("head_dim", 8)},
      {"NoConfig", "target", verifier, "config.json", Removed("config.json")},
      {"NoWeights", "target", verifier, "contains neither", Removed("model.safetensors")},
      {"NoTokenizer", "target", orchestrator, "tokenizer.json", Removed("tokenizer.json")},
      {"TokenizerBeyondTheVocabulary", "target", orchestrator, "tokenizer.json has the token 266",
       Written("tokenizer.json", testing::ByteLevelTokenizerJson().dump())},
      {"BrokenChatTemplate", "target", orchestrator, "chat_template",
       Written("chat_template.jinja", "{% for %}")},
      {"MissingDraftTensor", "drafter", drafter, "no tensor 'fc.weight'", Without("fc.weight")},
      {"MissingDraftNorm", "drafter", drafter, "no tensor 'hidden_norm.weight'",
       Without("hidden_norm.weight")},
      {"UnreadDraftTensor", "drafter", drafter, "'layers.0.conv.weight' is not a part",
       With("layers.0.conv.weight")},
      {"WrongFeatureWidth", "drafter", drafter, "tensor 'fc.weight' has shape",
       [](const std::string& folder) {
         ChangeConfig(folder, "dflash_config",
                      {{"target_layer_ids", {0, 1}}, {"mask_token_id", 7}});
       }},
      {"AnotherVocabulary", "drafter", drafter, "trained for another target: its vocabulary is",
       Config("vocab_size", 77)},
      {"AnotherDepth", "drafter", drafter, "num_target_layers", Config("num_target_layers", 77)},
      {"NotADrafter", "drafter", drafter, "block_size", Config("block_size", 1)},
      {"BrokenTable", "drafter", orchestrator, "transition_prior.safetensors",
       Written("transition_prior.safetensors", "not a table")},
  };
}

class CheckpointCheckTest : public ::testing::TestWithParam<Damage> {
 protected:
  CheckpointCheckTest() {
    const std::string golden = testing::GoldenFolder("gqa1_tied_draft1");
    std::filesystem::copy(golden, pair_.path(), std::filesystem::copy_options::recursive);
    std::ofstream(target_ + "/tokenizer.json") << SmallTokenizerJson(200);
    auto local = nn::OpenLocalDevice(2);
    EXPECT_TRUE(local.ok()) << local.status();
    local_ = *std::move(local);
    options_.device = local_.device;
    options_.target = target_;
    options_.drafter = drafter_;
  }

  // The first error of the services, in the order of the doctor's verdicts.
  absl::Status ErrorOfServices() {
    nn::EngineOptions engine;
    engine.device = local_.device;
    engine.kv_tokens = 1024;
    const absl::Status verifier = verifier::LoadTarget(target_, engine).status();
    if (!verifier.ok()) return verifier;
    const absl::Status drafter = drafter::DflashModel::Load(drafter_, target_, engine).status();
    if (!drafter.ok()) return drafter;
    const auto model = ServedModel::Load(target_);
    if (!model.ok()) return model.status();
    // The orchestrator refuses chats for this reason. The doctor reports it as an error.
    const std::string& problem = (*model)->chat_problem;
    if (!problem.empty()) return absl::InvalidArgumentError(problem);
    // With --prior, if there is a table.
    return hub::FindTransitionTable(drafter_, (*model)->config.dims.vocabulary).status();
  }
  // The first error of the doctor's report.
  static Verdict FirstError(const CheckpointReport& report) {
    for (const Verdict& verdict : report.verdicts) {
      if (!verdict.status.ok()) return verdict;
    }
    return {};
  }

  const testing::TempFolder pair_;
  const std::string target_ = pair_.File("target"), drafter_ = pair_.File("drafter");
  nn::LocalDevice local_;
  CheckpointOptions options_;
};

TEST_F(CheckpointCheckTest, AGoodPairRuns) {
  ASSERT_TRUE(ErrorOfServices().ok()) << ErrorOfServices();
  const CheckpointReport report = CheckCheckpoints(options_);
  EXPECT_TRUE(report.runs()) << FirstError(report).status;
  EXPECT_EQ(report.verdicts.size(), 3u);
}

TEST_F(CheckpointCheckTest, TheCheckKnowsWhatTheEnginesRead) {
  nn::EngineOptions engine;
  engine.device = local_.device;
  engine.kv_tokens = 1024;
  for (const WeightFormat format : kWeightFormats) {
    engine.formats = nn::FormatsFor(format);
    const auto target = CheckTarget(target_, engine);
    const auto drafter = CheckDrafter(drafter_, target_, engine);
    ASSERT_TRUE(target.ok() && drafter.ok()) << target.status() << drafter.status();
    const auto loaded_target = verifier::LoadTarget(target_, engine);
    const auto loaded_drafter = drafter::DflashModel::Load(drafter_, target_, engine);
    ASSERT_TRUE(loaded_target.ok() && loaded_drafter.ok());
    EXPECT_EQ(target->cost.weight_bytes, (*loaded_target)->Cost().weight_bytes);
    EXPECT_EQ(target->cost.kv_bytes_per_token, (*loaded_target)->Cost().kv_bytes_per_token);
    EXPECT_EQ(drafter->cost.weight_bytes, (*loaded_drafter)->Cost().weight_bytes);
    EXPECT_EQ(drafter->cost.multiply_adds_per_row, (*loaded_drafter)->Cost().multiply_adds_per_row);
  }
}

TEST_P(CheckpointCheckTest, HasTheErrorOfTheServices) {
  const Damage& damage = GetParam();
  damage.apply(pair_.File(damage.folder));
  const CheckpointReport report = CheckCheckpoints(options_);
  const Verdict verdict = FirstError(report);
  EXPECT_EQ(verdict.service, damage.service) << verdict.status;
  EXPECT_THAT(std::string(verdict.status.message()), HasSubstr(damage.expected));
  EXPECT_NE(verdict.remedy, "");
  EXPECT_FALSE(report.runs());
  EXPECT_EQ(verdict.status, ErrorOfServices());
}

INSTANTIATE_TEST_SUITE_P(Damages, CheckpointCheckTest, ::testing::ValuesIn(Damages()),
                         [](const auto& info) { return std::string(info.param.name); });

// The parity goldens of target families.
class FamilyCheckTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FamilyCheckTest, AGoodTargetRuns) {
  const testing::TempFolder folder;
  const std::string target = folder.File("target");
  std::filesystem::copy(testing::GoldenFolder(GetParam()) + "/target", target);
  const json config = json::parse(std::ifstream(target + "/config.json"));
  std::ofstream(target + "/tokenizer.json") << SmallTokenizerJson(config["vocab_size"]);
  auto local = nn::OpenLocalDevice(2);
  ASSERT_TRUE(local.ok()) << local.status();
  CheckpointOptions options;
  options.device = local->device;
  options.target = target;
  const CheckpointReport report = CheckCheckpoints(options);
  EXPECT_TRUE(report.runs());
  for (const Verdict& verdict : report.verdicts) EXPECT_TRUE(verdict.status.ok()) << verdict.status;

  nn::EngineOptions engine;
  engine.device = local->device;
  engine.kv_tokens = 256;
  const auto checked = CheckTarget(target, engine);
  const auto loaded = verifier::LoadTarget(target, engine);
  ASSERT_TRUE(checked.ok() && loaded.ok()) << checked.status() << loaded.status();
  EXPECT_EQ(checked->cost.weight_bytes, (*loaded)->Cost().weight_bytes);
  EXPECT_EQ(checked->cost.multiply_adds_per_row, (*loaded)->Cost().multiply_adds_per_row);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyCheckTest,
                         ::testing::Values("qwen2_yarn", "mistral_window",
                                           "smollm3_no_rope_layers"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace bastion::doctor
