#include "tests/support/random_experts.h"

#include <cmath>
#include <cstdint>
#include <list>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/dtype.h"
#include "common/hub/safetensors_writer.h"

namespace bastion::testing {
namespace {

constexpr int kLayers = 2;
constexpr int kVocabulary = 512;
constexpr int kHeadDim = 64;

// The tensors of a checkpoint, in fp32.
class RandomTensors {
 public:
  // Adds a tensor of `shape`: uniform, with standard deviation `scale`, around `mean`.
  void Add(const std::string& name, std::vector<int64_t> shape, double scale, float mean = 0) {
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    std::vector<float>& values = values_.emplace_back(elements);
    const auto width = static_cast<float>(scale * std::sqrt(12.0) / 4294967296.0);
    for (float& value : values) {
      value = mean + width * (static_cast<float>(random_()) - 2147483648.0f);
    }
    tensors_.push_back(
        {name, {DType::kF32, std::move(shape), values.data(), values.size() * sizeof(float)}});
  }
  // A matrix [rows, columns] whose products keep the size of their input.
  void AddMatrix(const std::string& name, int64_t rows, int64_t columns) {
    Add(name, {rows, columns}, 1 / std::sqrt(static_cast<double>(columns)));
  }

  [[nodiscard]] const std::vector<hub::NamedTensor>& tensors() const { return tensors_; }

 private:
  std::mt19937 random_{1};
  std::list<std::vector<float>> values_;
  std::vector<hub::NamedTensor> tensors_;
};

void AddLayer(RandomTensors& tensors, const std::string& prefix, const RandomExpertsSize& size) {
  const int64_t hidden = size.hidden, heads = hidden / kHeadDim * kHeadDim;
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    tensors.Add(absl::StrCat(prefix, norm, ".weight"), {hidden}, 0.1, 1);
  }
  for (const char* norm : {"q_norm", "k_norm"}) {
    tensors.Add(absl::StrCat(prefix, "self_attn.", norm, ".weight"), {kHeadDim}, 0.1, 1);
  }
  tensors.AddMatrix(prefix + "self_attn.q_proj.weight", heads, hidden);
  tensors.AddMatrix(prefix + "self_attn.k_proj.weight", kHeadDim, hidden);
  tensors.AddMatrix(prefix + "self_attn.v_proj.weight", kHeadDim, hidden);
  tensors.AddMatrix(prefix + "self_attn.o_proj.weight", hidden, heads);
  tensors.AddMatrix(prefix + "mlp.gate.weight", size.experts, hidden);
  const double scale = 1 / std::sqrt(static_cast<double>(hidden));
  tensors.Add(prefix + "mlp.experts.gate_up_proj", {size.experts, 2 * hidden, hidden}, scale);
  tensors.Add(prefix + "mlp.experts.down_proj", {size.experts, hidden, hidden}, scale);
}

}  // namespace

RandomExperts::RandomExperts(const RandomExpertsSize& size) {
  const nlohmann::json config = {{"architectures", {"Qwen3MoeForCausalLM"}},
                                 {"model_type", "qwen3_moe"},
                                 {"hidden_size", size.hidden},
                                 {"intermediate_size", size.hidden},
                                 {"moe_intermediate_size", size.hidden},
                                 {"num_attention_heads", size.hidden / kHeadDim},
                                 {"num_key_value_heads", 1},
                                 {"head_dim", kHeadDim},
                                 {"num_hidden_layers", kLayers},
                                 {"num_experts", size.experts},
                                 {"num_experts_per_tok", size.chosen},
                                 {"norm_topk_prob", true},
                                 {"hidden_act", "silu"},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 10000.0},
                                 {"attention_bias", false},
                                 {"max_position_embeddings", 4096},
                                 {"tie_word_embeddings", false},
                                 {"torch_dtype", "float32"},
                                 {"vocab_size", kVocabulary}};
  folder_.Write("config.json", config.dump());
  RandomTensors tensors;
  tensors.AddMatrix("model.embed_tokens.weight", kVocabulary, size.hidden);
  tensors.AddMatrix("lm_head.weight", kVocabulary, size.hidden);
  tensors.Add("model.norm.weight", {size.hidden}, 0.1, 1);
  for (int layer = 0; layer < kLayers; ++layer) {
    AddLayer(tensors, absl::StrCat("model.layers.", layer, "."), size);
  }
  const absl::Status written =
      hub::WriteSafetensors(tensors.tensors(), folder_.File("model.safetensors"));
  CHECK(written.ok()) << written;
}

}  // namespace bastion::testing
