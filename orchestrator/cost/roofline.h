// The roofline of a standard transformer's verify forward (BASTION paper, appendix F, equations 8
// and 9), in seconds:
//
//   R(s, c) = max(FLOPs / PeakFLOPs, Bytes / Bandwidth)
//
// for s verified rows over c cached tokens, with h the hidden size, n_q query and n_kv key heads of
// d dims, h_q = n_q·d, h_kv = n_kv·d, h_ffn the intermediate size, L layers, V vocabulary, bp bytes
// per parameter or activation element:
//
//   FLOPs = L(4·s·h·h_q + 4·s·h·h_kv + 4·s·(c+s)·h_q + 6·s·h·h_ffn) + 2·s·h·V
//   Bytes = bp·[2·V·h + s(h+V) + L(2h(h_q+h_kv) + 3·h·h_ffn + 2·h_kv(c+2s) + 4s(h+h_q+h_ffn)
//               + 2·n_q·s(c+s))]
//
// The last term is the attention matrix of an unfused implementation, as in the paper. The
// estimators correct the remaining error.
//
// The paper's models have one type, so one bp is enough there. An int8 target has weights of one
// byte, but keys, values and activations of other types. Table 4 of the paper lists the three
// apart, so the weights' terms, 2·V·h and L(2h(h_q+h_kv) + 3·h·h_ffn), get the bytes of the weights
// (ModelDims::bytes_per_weight), and all other terms state_bytes_per_element. With one type for
// everything, the formula is the paper's.
//
// The paper's models have an MLP of three matrices in each layer. For m matrices, the terms are
// 2·m·s·h·h_ffn and m·h·h_ffn. In a layer that chooses k of E experts of width h_e for each row,
// h_ffn of the other terms is k·h_e, the FLOPs are 6·s·k·h·h_e + 2·s·h·E (the router), and the
// weights are h·E + 3·h·h_e for each of the E(1 − (1 − k/E)^s) distinct experts that s rows choose
// if they choose independently. Thread-safe: immutable.
#ifndef BASTION_ORCHESTRATOR_COST_ROOFLINE_H_
#define BASTION_ORCHESTRATOR_COST_ROOFLINE_H_

#include "absl/status/statusor.h"
#include "common/stages/stage_data.h"

namespace bastion {

class Roofline {
 public:
  // INVALID_ARGUMENT unless every dim and both peaks are positive, and the experts make sense.
  [[nodiscard]] static absl::StatusOr<Roofline> Make(const ModelDims& dims,
                                                     const DevicePeaks& peaks);

  // REQUIRES, for all three: rows >= 1, context >= 0.
  [[nodiscard]] double Flops(int rows, int context) const;
  [[nodiscard]] double Bytes(int rows, int context) const;
  [[nodiscard]] double Seconds(int rows, int context) const;

 private:
  Roofline(const ModelDims& dims, const DevicePeaks& peaks) : dims_(dims), peaks_(peaks) {}

  ModelDims dims_;
  DevicePeaks peaks_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_ROOFLINE_H_
