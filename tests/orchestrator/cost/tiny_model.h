// The model of the cost tests that are computed by hand (symbols: roofline.h): L=2, h=4, n_q=2,
// n_kv=1, d=3 (so h_q=6, h_kv=3), h_ffn=5, V=10, bp=2. Header-only.
#ifndef BASTION_TESTS_ORCHESTRATOR_COST_TINY_MODEL_H_
#define BASTION_TESTS_ORCHESTRATOR_COST_TINY_MODEL_H_

#include "common/stages/stage_data.h"
#include "orchestrator/cost/roofline.h"

namespace bastion::testing {

inline ModelDims TinyDims() {
  return {.layers = 2,
          .hidden = 4,
          .query_heads = 2,
          .kv_heads = 1,
          .head_dim = 3,
          .intermediate = 5,
          .vocabulary = 10,
          .bytes_per_weight = 2};
}

inline Roofline TinyRoofline() {
  return *Roofline::Make(TinyDims(), {.bytes_per_second = 1000, .flops_per_second = 2000});
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_COST_TINY_MODEL_H_
