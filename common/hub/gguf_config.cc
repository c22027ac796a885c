#include "common/hub/gguf_config.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/hub/gguf_model.h"
#include "common/hub/gguf_tokenizer.h"
#include "common/hub/model_family.h"

namespace bastion::hub {
namespace {

using Json = nlohmann::json;

// The keys of an architecture that change the model and that this file reads, and keys that do not
// change it.
constexpr const char* kKnownKeys[] = {"block_count",
                                      "context_length",
                                      "embedding_length",
                                      "feed_forward_length",
                                      "vocab_size",
                                      "attention.head_count",
                                      "attention.head_count_kv",
                                      "attention.key_length",
                                      "attention.value_length",
                                      "attention.layer_norm_rms_epsilon",
                                      "attention.layer_norm_epsilon",
                                      "rope.dimension_count",
                                      "rope.freq_base",
                                      "rope.scaling.type",
                                      "rope.scaling.factor",
                                      "rope.scaling.original_context_length",
                                      "rope.scaling.finetuned",
                                      "use_parallel_residual",
                                      "expert_count",
                                      "expert_used_count",
                                      "expert_feed_forward_length",
                                      "tensor_data_layout"};

// Every `kNoRopeInterval`-th layer of SmolLM3 has no rotary embedding. The file does not say so.
constexpr int kNoRopeInterval = 4;

// Reads metadata of the model's architecture and fills in a config.
class ConfigWriter {
 public:
  explicit ConfigWriter(const GgufModel& model)
      : model_(model),
        metadata_(model.metadata()),
        prefix_(absl::StrCat(model.architecture().name, ".")),
        family_(*FindFamily(model.architecture().architecture)) {}

  [[nodiscard]] std::string Key(const char* key) const { return prefix_ + key; }
  [[nodiscard]] bool Has(const char* key) const { return metadata_.Has(Key(key).c_str()); }

  absl::StatusOr<int> Positive(const char* key) const {
    return metadata_.GetPositive<int>(Key(key).c_str());
  }
  absl::StatusOr<int> Positive(const char* key, int fallback) const {
    return metadata_.GetPositive<int>(Key(key).c_str(), fallback);
  }

  absl::StatusOr<Json> Write() {
    RETURN_IF_ERROR(CheckKeys());
    config_["architectures"] = Json::array({family_.architecture});
    config_["torch_dtype"] = "bfloat16";
    config_["tie_word_embeddings"] = !model_.HasStored("output.weight");
    RETURN_IF_ERROR(WriteDims());
    RETURN_IF_ERROR(WriteBlocks());
    RETURN_IF_ERROR(WriteRope());
    if (family_.keys.experts) {
      RETURN_IF_ERROR(WriteExperts());
    }
    RETURN_IF_ERROR(WriteSpecialTokens());
    return config_;
  }

  absl::StatusOr<int> HeadDim() const {
    ASSIGN_OR_RETURN(const int hidden, Positive("embedding_length"));
    ASSIGN_OR_RETURN(const int heads, Positive("attention.head_count"));
    ASSIGN_OR_RETURN(const int key, Positive("attention.key_length", std::max(1, hidden / heads)));
    ASSIGN_OR_RETURN(const int value, Positive("attention.value_length", key));
    if (key == value) return key;
    return absl::UnimplementedError(absl::StrCat(metadata_.origin(), ": '",
                                                 Key("attention.value_length"), "' is ", value,
                                                 ", but keys have ", key, " elements"));
  }

 private:
  [[nodiscard]] bool Reads(const char* field) const {
    const std::vector<std::string> fields = FieldsOf(family_);
    return std::find(fields.begin(), fields.end(), field) != fields.end();
  }

  absl::Status CheckKeys() const {
    for (const auto& [key, value] : metadata_.json().items()) {
      if (!absl::StartsWith(key, prefix_)) continue;
      const std::string own = key.substr(prefix_.size());
      if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), own) != std::end(kKnownKeys)) {
        continue;
      }
      return absl::UnimplementedError(absl::StrCat(metadata_.origin(),
                                                   ": the engines do not know the entry '", key,
                                                   "', which may change what the model computes"));
    }
    return absl::OkStatus();
  }

  absl::Status WriteDims() {
    ASSIGN_OR_RETURN(config_["num_hidden_layers"], Positive("block_count"));
    ASSIGN_OR_RETURN(config_["hidden_size"], Positive("embedding_length"));
    ASSIGN_OR_RETURN(const int heads, Positive("attention.head_count"));
    config_["num_attention_heads"] = heads;
    if (Reads("num_key_value_heads")) {
      ASSIGN_OR_RETURN(config_["num_key_value_heads"], Positive("attention.head_count_kv", heads));
    }
    ASSIGN_OR_RETURN(const int head_dim, HeadDim());
    if (Reads("head_dim")) config_["head_dim"] = head_dim;
    ASSIGN_OR_RETURN(config_["intermediate_size"], Positive("feed_forward_length"));
    ASSIGN_OR_RETURN(config_["max_position_embeddings"], Positive("context_length"));
    const TensorView* const table = model_.Stored("token_embd.weight");
    if (table == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(metadata_.origin(), ": no tensor 'token_embd.weight'"));
    }
    config_["vocab_size"] = table->shape[0];
    return absl::OkStatus();
  }

  absl::Status WriteBlocks() {
    const bool layer_norm = family_.blocks.norm == NormKind::kLayer;
    const std::string key =
        Key(layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
    ASSIGN_OR_RETURN(config_[family_.keys.norm_epsilon],
                     metadata_.GetPositive<double>(key.c_str()));
    if (!family_.keys.parallel_residual.empty()) {
      ASSIGN_OR_RETURN(config_[family_.keys.parallel_residual],
                       metadata_.Get<bool>(Key("use_parallel_residual").c_str(), true));
    }
    if (Reads("no_rope_layer_interval")) config_["no_rope_layer_interval"] = kNoRopeInterval;
    return absl::OkStatus();
  }

  absl::Status WriteRope() {
    const std::string key = Key("rope.freq_base");
    ASSIGN_OR_RETURN(config_[family_.keys.rope_theta],
                     metadata_.GetPositive<double>(key.c_str(), 10000));
    ASSIGN_OR_RETURN(const int head_dim, HeadDim());
    ASSIGN_OR_RETURN(const int dims, Positive("rope.dimension_count", head_dim));
    if (!family_.keys.rotary_fraction.empty()) {
      // The half makes sure that the product with head_dim is not rounded down to less.
      config_[family_.keys.rotary_fraction] = (dims + 0.5) / head_dim;
    } else if (dims != head_dim) {
      return absl::UnimplementedError(
          absl::StrCat(metadata_.origin(), ": '", Key("rope.dimension_count"), "' is ", dims,
                       "; the engines support only ", head_dim, ", the size of a head"));
    }
    if (const TensorView* const factors = model_.Stored(kRopeFactors); factors != nullptr) {
      return WriteFactors(*factors);
    }
    return WriteScaling();
  }

  absl::Status WriteFactors(const TensorView& factors) {
    if (factors.dtype != DType::kF32 || factors.blocks != BlockFormat::kNone ||
        factors.shape.size() != 1) {
      return absl::UnimplementedError(absl::StrCat(metadata_.origin(), ": tensor '", kRopeFactors,
                                                   "' must have one dimension and type F32"));
    }
    std::vector<float> values(factors.shape[0]);
    std::memcpy(values.data(), factors.data, factors.bytes);
    config_["rope_scaling"] = {{"rope_type", "frequency_factors"}, {"factors", values}};
    return absl::OkStatus();
  }

  absl::Status WriteScaling() {
    ASSIGN_OR_RETURN(const std::string type,
                     metadata_.Get<std::string>(Key("rope.scaling.type").c_str(), "none"));
    if (type == "none") return absl::OkStatus();
    Json scaling = {{"rope_type", type}};
    ASSIGN_OR_RETURN(scaling["factor"],
                     metadata_.GetPositive<double>(Key("rope.scaling.factor").c_str()));
    if (Has("rope.scaling.original_context_length")) {
      ASSIGN_OR_RETURN(scaling["original_max_position_embeddings"],
                       Positive("rope.scaling.original_context_length"));
    }
    config_["rope_scaling"] = scaling;
    return absl::OkStatus();
  }

  absl::Status WriteExperts() {
    ASSIGN_OR_RETURN(config_["num_experts"], Positive("expert_count"));
    ASSIGN_OR_RETURN(config_["num_experts_per_tok"], Positive("expert_used_count"));
    ASSIGN_OR_RETURN(config_["moe_intermediate_size"], Positive("expert_feed_forward_length"));
    config_["norm_topk_prob"] = true;  // So are all models of this architecture.
    return absl::OkStatus();
  }

  absl::Status WriteSpecialTokens() {
    ASSIGN_OR_RETURN(const std::vector<int> bos, metadata_.Integers("tokenizer.ggml.bos_token_id"));
    if (!bos.empty()) config_["bos_token_id"] = bos.front();
    ASSIGN_OR_RETURN(config_["eos_token_id"], GgufEndTokens(metadata_));
    return absl::OkStatus();
  }

  const GgufModel& model_;
  const JsonObject& metadata_;
  std::string prefix_;
  const ModelFamily& family_;
  Json config_ = Json::object();
};

}  // namespace

absl::StatusOr<Json> GgufConfig(const GgufModel& model) { return ConfigWriter(model).Write(); }

absl::StatusOr<int> GgufHeadDim(const GgufModel& model) { return ConfigWriter(model).HeadDim(); }

}  // namespace bastion::hub
