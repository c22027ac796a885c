// Checkpoints of DFlash 2 that were changed: without one of its parts, with parts that change
// nothing, and with parts that are missing or do not fit.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/hub/safetensors.h"
#include "gmock/gmock.h"
#include "tests/parity/dflash2_fixture.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Tensors = std::vector<testing::TensorFixture>;

// `value` in all elements.
testing::TensorFixture FloatsOf(const std::string& name, std::vector<int64_t> shape, float value) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const std::vector<float> values(count, value);
  return {name, "F32", std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), count * sizeof(float))};
}

bool IsPartOf(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

class Dflash2CheckpointTest : public testing::Dflash2Fixture {
 protected:
  // Copies the drafter of the golden, with changes.
  std::string Changed(const std::function<void(json&, Tensors&)>& change) {
    const std::string from = folder_ + "/drafter";
    json config = json::parse(std::ifstream(from + "/config.json"));
    Tensors tensors;
    const auto file = hub::SafetensorsFile::Open(from + "/model.safetensors");
    EXPECT_TRUE(file.ok()) << file.status();
    for (const std::string& name : file->TensorNames()) {
      const auto view = file->Tensor(name);
      tensors.push_back({name, SafetensorsName(view->dtype), view->shape,
                         std::string(static_cast<const char*>(view->data), view->bytes)});
    }
    change(config, tensors);
    changed_.Write("config.json", config.dump());
    changed_.Write("model.safetensors", testing::SafetensorsFileOf(tensors));
    return changed_.path();
  }

  absl::Status ErrorOf(const std::function<void(json&, Tensors&)>& change) {
    return drafter::DflashModel::Load(Changed(change), folder_ + "/target", options_).status();
  }

  static void Erase(Tensors& tensors, const char* part) {
    EXPECT_GT(std::erase_if(tensors, [&](const auto& t) { return IsPartOf(t.name, part); }), 0u);
  }

  // The largest difference between the drafter's logits and the golden's.
  float WorstLogit() {
    (void)DraftOf(0, 4);
    const auto actual = model_->ReadLogits();
    EXPECT_TRUE(actual.ok()) << actual.status();
    const std::vector<float> expected = golden_->Floats("marginal_logits_0");
    EXPECT_EQ(actual->size(), expected.size());
    float worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs((*actual)[i] - expected[i]));
    }
    return worst;
  }

  testing::TempFolder changed_;
};

// Zeroes the tensors whose names contain `part`. Base kernels keep 1 at tap 0.
void Silence(const char* part, Tensors& tensors) {
  for (testing::TensorFixture& tensor : tensors) {
    if (!IsPartOf(tensor.name, part)) continue;
    tensor = FloatsOf(tensor.name, tensor.shape, 0);
    if (!IsPartOf(tensor.name, "base_kernel")) continue;
    auto* const values = reinterpret_cast<float*>(tensor.data.data());
    const int64_t side = tensor.shape[1] * tensor.shape[2];
    for (int s = 0; s < 2; ++s) std::fill_n(values + s * side, tensor.shape[2], 1.0f);
  }
}

// The parity test would notice a convolution that is not computed.
TEST_F(Dflash2CheckpointTest, EachConvolutionChangesTheLogits) {
  UseGolden("dflash2_window");
  Load();
  EXPECT_LT(WorstLogit(), 1e-4f);
  for (const char* part : {"attention_conv.base", "attention_conv.kernel", "mlp_conv.base",
                           "mlp_conv.kernel", "layers.1.mlp_conv"}) {
    Load(Changed([&](json&, Tensors& tensors) { Silence(part, tensors); }));
    EXPECT_GT(WorstLogit(), 0.1f) << part;
  }
}

TEST_F(Dflash2CheckpointTest, EachPartOfTheSelectorChangesThePairScores) {
  UseGolden("dflash2_window");
  const std::vector<float> expected = golden_->Floats("pair_scores_0");
  const float largest = *std::max_element(expected.begin(), expected.end());
  ASSERT_GT(largest, 1);
  for (const char* part : {"predecessor_codebook", "successor_codebook", "hidden_projection"}) {
    Load(Changed([&](json&, Tensors& tensors) { Silence(part, tensors); }));
    const Marginals marginals = DraftOf(0, 64);
    EXPECT_EQ(marginals.tokens, golden_->Integers("pair_tokens_0")) << part;
    EXPECT_THAT(marginals.pair_scores, ::testing::Each(0)) << part;
  }
}

// A drafter of version 1 with convolutions that change nothing and a selector that scores 0.
class IdentityTest : public Dflash2CheckpointTest,
                     public ::testing::WithParamInterface<std::string> {};

TEST_P(IdentityTest, APaddedDrafterOfVersion1DraftsTheSameBits) {
  UseGolden(GetParam());
  Load();
  std::vector<Marginals> expected;
  for (int draft = 0; draft < draft_count(); ++draft) expected.push_back(DraftOf(draft, 12));
  Load(Changed([](json& config, Tensors& tensors) {
    constexpr int kTaps = 2, kGroup = 8, kRank = 4;
    const int width = config["hidden_size"], vocabulary = config["vocab_size"];
    config["architectures"] = {"DFlash2DraftModel"};
    json& fields = config["dflash_config"];
    fields["conv_kernel_size"] = kTaps;
    fields["conv_group_size"] = kGroup;
    fields["selector_rank"] = kRank;
    fields["selector_top_k"] = 12;
    for (int layer = 0; layer < config["num_hidden_layers"]; ++layer) {
      for (const char* name : {".attention_conv", ".mlp_conv"}) {
        const std::string conv = "layers." + std::to_string(layer) + name;
        tensors.push_back(FloatsOf(conv + ".base_kernel", {2, kTaps, width}, 0));
        tensors.push_back(
            FloatsOf(conv + ".kernel_projection.weight", {2 * kTaps * width / kGroup, width}, 0));
      }
    }
    Silence(".base_kernel", tensors);
    const std::string selector = "candidate_selector.";
    tensors.push_back(FloatsOf(selector + "predecessor_codebook", {vocabulary, kRank}, 1));
    tensors.push_back(FloatsOf(selector + "successor_codebook", {vocabulary, kRank}, 0));
    tensors.push_back(FloatsOf(selector + "hidden_projection.weight", {kRank, width}, 1));
  }));
  for (int draft = 0; draft < draft_count(); ++draft) {
    Marginals actual = DraftOf(draft, 12);
    EXPECT_EQ(actual.pair_scores.size(), actual.tokens.size() * 12);
    EXPECT_THAT(actual.pair_scores, ::testing::Each(0));
    actual.pair_scores.clear();
    EXPECT_EQ(actual, expected[draft]) << "draft " << draft;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, IdentityTest,
                         ::testing::Values("gqa2_untied_draft2", "gqa4_tied_draft5",
                                           "sliding_window"),
                         [](const auto& info) { return info.param; });

TEST_F(Dflash2CheckpointTest, RefusesTensorsOfVersion2InVersion1) {
  UseGolden("dflash2_window");
  const auto rename = [](json& config, Tensors&) {
    config["architectures"] = {"DFlashDraftModel"};
    for (const char* key :
         {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}) {
      config["dflash_config"].erase(key);
    }
  };
  for (const char* part : {"candidate_selector", "_conv."}) {
    const absl::Status status = ErrorOf([&](json& config, Tensors& tensors) {
      rename(config, tensors);
      Erase(tensors, part);
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(status.message(), HasSubstr("is not a part of the model"));
  }
}

TEST_F(Dflash2CheckpointTest, RefusesPartsThatAreMissingOrDoNotFit) {
  UseGolden("dflash2_window");
  for (const char* part : {"attention_conv.base_kernel", "mlp_conv.kernel_projection",
                           "predecessor_codebook", "successor_codebook", "hidden_projection"}) {
    const absl::Status missing = ErrorOf([&](json&, Tensors& tensors) { Erase(tensors, part); });
    EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
    EXPECT_THAT(missing.message(), HasSubstr(part));
    const absl::Status wrong = ErrorOf([&](json&, Tensors& tensors) {
      for (testing::TensorFixture& tensor : tensors) {
        if (IsPartOf(tensor.name, part)) std::swap(tensor.shape.front(), tensor.shape.back());
      }
    });
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(wrong.message(), HasSubstr("expected"));
  }
  for (const char* key : {"conv_group_size", "conv_kernel_size", "selector_rank"}) {
    const absl::Status status =
        ErrorOf([&](json& config, Tensors&) { config["dflash_config"][key] = 4; });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key << status;
  }
}

TEST_F(Dflash2CheckpointTest, AnEmbeddingNeedsAHeadBesideIt) {
  UseGolden("dflash2_speculators");
  for (const char* part : {"embed_tokens", "lm_head"}) {
    const absl::Status status = ErrorOf([&](json&, Tensors& tensors) { Erase(tensors, part); });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr("a drafter has both or none"));
  }
}

// The golden has copies of the target's tables.
TEST_F(Dflash2CheckpointTest, UsesTheTargetsTablesWithoutItsOwn) {
  UseGolden("dflash2_speculators");
  Load();
  const Marginals own = DraftOf(2, 8);
  Load(Changed([](json&, Tensors& tensors) {
    Erase(tensors, "embed_tokens");
    Erase(tensors, "lm_head");
  }));
  EXPECT_EQ(DraftOf(2, 8), own);
  Load(Changed([](json&, Tensors& tensors) { Silence("lm_head", tensors); }));
  EXPECT_NE(DraftOf(2, 8), own);
}

TEST_F(Dflash2CheckpointTest, RefusesLayersThatTheTargetDoesNotHave) {
  UseGolden("dflash2_speculators");
  const absl::Status status = ErrorOf([](json& config, Tensors&) {
    config["aux_hidden_state_layer_ids"] = {1, 3};
  });
  EXPECT_THAT(status.message(), HasSubstr("its last feature layer is 3, but the target's is 2"));
}

}  // namespace
}  // namespace bastion
