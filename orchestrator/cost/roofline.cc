#include "orchestrator/cost/roofline.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bastion {

namespace {

constexpr int kExpertMatrices = 3;  // Gate, up and down.

absl::Status CheckMlp(const ModelDims& dims) {
  const MlpDims& mlp = dims.mlp;
  const bool valid = mlp.matrices > 0 && mlp.expert_layers >= 0 &&
                     mlp.expert_layers <= dims.layers &&
                     (mlp.expert_layers == 0 ||
                      (mlp.chosen > 0 && mlp.chosen <= mlp.experts && mlp.expert_intermediate > 0));
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("roofline: an MLP of ", mlp.matrices, " matrices, and ", mlp.expert_layers,
                   " of ", dims.layers, " layers with ", mlp.chosen, " of ", mlp.experts,
                   " experts of width ", mlp.expert_intermediate, " make no model"));
}

// The distinct experts of a layer that `rows` rows choose independently of each other.
double TouchedExperts(const MlpDims& mlp, double rows) {
  return mlp.experts * (1 - std::pow(1 - static_cast<double>(mlp.chosen) / mlp.experts, rows));
}

}  // namespace

absl::StatusOr<Roofline> Roofline::Make(const ModelDims& dims, const DevicePeaks& peaks) {
  const double smallest =
      std::min<double>(std::min({dims.layers, dims.hidden, dims.query_heads, dims.kv_heads,
                                 dims.head_dim, dims.intermediate, dims.vocabulary}),
                       dims.bytes_per_weight);
  if (!(smallest > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "roofline: every dim of the model must be positive; the smallest is ", smallest));
  }
  if (absl::Status status = CheckMlp(dims); !status.ok()) return status;
  if (!(peaks.flops_per_second > 0) || !(peaks.bytes_per_second > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("roofline: device peaks must be positive; the verifier reports ",
                     peaks.flops_per_second, " FLOP/s and ", peaks.bytes_per_second, " bytes/s"));
  }
  return Roofline(dims, peaks);
}

double Roofline::Flops(int rows, int context) const {
  const double s = rows;
  const double c = context;
  const double h = dims_.hidden;
  const double h_q = static_cast<double>(dims_.query_heads) * dims_.head_dim;
  const double h_kv = static_cast<double>(dims_.kv_heads) * dims_.head_dim;
  const double attention = 4 * s * h * h_q + 4 * s * h * h_kv + 4 * s * (c + s) * h_q;
  const MlpDims& mlp = dims_.mlp;
  const double dense = 2 * mlp.matrices * s * h * dims_.intermediate;
  const double experts =
      2 * kExpertMatrices * s * mlp.chosen * h * mlp.expert_intermediate + 2 * s * h * mlp.experts;
  return dims_.layers * attention + (dims_.layers - mlp.expert_layers) * dense +
         mlp.expert_layers * experts + 2 * s * h * dims_.vocabulary;
}

double Roofline::Bytes(int rows, int context) const {
  const double s = rows;
  const double c = context;
  const double h = dims_.hidden;
  const double h_q = static_cast<double>(dims_.query_heads) * dims_.head_dim;
  const double h_kv = static_cast<double>(dims_.kv_heads) * dims_.head_dim;
  const MlpDims& mlp = dims_.mlp;
  const int dense = dims_.layers - mlp.expert_layers;
  double weights = 2 * dims_.vocabulary * h + dims_.layers * 2 * h * (h_q + h_kv) +
                   dense * mlp.matrices * h * dims_.intermediate;
  if (mlp.expert_layers > 0) {
    const double read = kExpertMatrices * mlp.expert_intermediate * TouchedExperts(mlp, s);
    weights += mlp.expert_layers * h * (mlp.experts + read);
  }
  const double activations =
      static_cast<double>(dense) * dims_.intermediate +
      static_cast<double>(mlp.expert_layers) * mlp.chosen * mlp.expert_intermediate;
  const double states = s * (h + dims_.vocabulary) + 4 * s * activations +
                        dims_.layers * (2 * h_kv * (c + 2 * s) + 4 * s * (h + h_q) +
                                        2 * dims_.query_heads * s * (c + s));
  const double state_bytes =
      dims_.state_bytes_per_element > 0 ? dims_.state_bytes_per_element : dims_.bytes_per_weight;
  return dims_.bytes_per_weight * weights + state_bytes * states;
}

double Roofline::Seconds(int rows, int context) const {
  return std::max(Flops(rows, context) / peaks_.flops_per_second,
                  Bytes(rows, context) / peaks_.bytes_per_second);
}

}  // namespace bastion
