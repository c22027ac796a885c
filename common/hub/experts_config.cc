#include "common/hub/experts_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::hub {
namespace {

// The number of experts. Version 5 of `transformers` renamed the field.
constexpr const char* kCount = "num_experts";
constexpr const char* kLocalCount = "num_local_experts";

}  // namespace

std::vector<std::string> ExpertFields() {
  return {kCount,           kLocalCount,           "num_experts_per_tok", "moe_intermediate_size",
          "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"};
}

absl::StatusOr<ExpertsConfig> ReadExperts(const JsonObject& json) {
  ExpertsConfig experts;
  ASSIGN_OR_RETURN(experts.count,
                   json.GetPositive<int>(json.Has(kLocalCount) ? kLocalCount : kCount));
  ASSIGN_OR_RETURN(experts.chosen, json.GetPositive<int>("num_experts_per_tok"));
  ASSIGN_OR_RETURN(experts.intermediate, json.GetPositive<int>("moe_intermediate_size"));
  ASSIGN_OR_RETURN(experts.normalize, json.Get<bool>("norm_topk_prob", false));
  if (experts.chosen > experts.count) {
    return json.KeyError(
        "num_experts_per_tok",
        absl::StrCat("is ", experts.chosen, ", but there are only ", experts.count, " experts"));
  }
  return experts;
}

absl::StatusOr<std::vector<bool>> ReadExpertLayers(const JsonObject& json, int layers) {
  ASSIGN_OR_RETURN(const int step, json.GetPositive("decoder_sparse_step", 1));
  ASSIGN_OR_RETURN(const std::vector<int> dense, json.Integers("mlp_only_layers"));
  std::vector<bool> with_experts;
  for (int layer = 0; layer < layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    with_experts.push_back(!listed && (layer + 1) % step == 0);
  }
  return with_experts;
}

}  // namespace bastion::hub
