#include "orchestrator/cost/roofline.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bastion {

absl::StatusOr<Roofline> Roofline::Make(const ModelDims& dims, const DevicePeaks& peaks) {
  const int smallest =
      std::min({dims.layers, dims.hidden, dims.query_heads, dims.kv_heads, dims.head_dim,
                dims.intermediate, dims.vocabulary, dims.bytes_per_element});
  if (smallest <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "roofline: every dim of the model must be positive; the smallest is ", smallest));
  }
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
  const double layer =
      4 * s * h * h_q + 4 * s * h * h_kv + 4 * s * (c + s) * h_q + 6 * s * h * dims_.intermediate;
  return dims_.layers * layer + 2 * s * h * dims_.vocabulary;
}

double Roofline::Bytes(int rows, int context) const {
  const double s = rows;
  const double c = context;
  const double h = dims_.hidden;
  const double h_q = static_cast<double>(dims_.query_heads) * dims_.head_dim;
  const double h_kv = static_cast<double>(dims_.kv_heads) * dims_.head_dim;
  const double h_ffn = dims_.intermediate;
  const double weights =
      2 * dims_.vocabulary * h + dims_.layers * (2 * h * (h_q + h_kv) + 3 * h * h_ffn);
  const double states = s * (h + dims_.vocabulary) +
                        dims_.layers * (2 * h_kv * (c + 2 * s) + 4 * s * (h + h_q + h_ffn) +
                                        2 * dims_.query_heads * s * (c + s));
  const int state_bytes =
      dims_.state_bytes_per_element > 0 ? dims_.state_bytes_per_element : dims_.bytes_per_element;
  return dims_.bytes_per_element * weights + state_bytes * states;
}

double Roofline::Seconds(int rows, int context) const {
  return std::max(Flops(rows, context) / peaks_.flops_per_second,
                  Bytes(rows, context) / peaks_.bytes_per_second);
}

}  // namespace bastion
