// CycleCost: the predicted duration of one cycle of one sequence, as a function of its number of
// nodes (BASTION paper, equation 7):  Ĉ(N) = T_draft + T_aux + T_verify(N + 1 rows, c).
//
// A cheap snapshot of the cost model. Do not keep it after the cycle ends. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_CYCLE_COST_H_
#define BASTION_ORCHESTRATOR_COST_CYCLE_COST_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/cost/estimator.h"

namespace bastion {

struct CycleCost {
  const LatencyEstimator* verify;  // Not owned.
  absl::Duration draft;            // T_draft
  absl::Duration overhead;         // T_aux: commit, messages and tree construction.
  int context = 0;                 // c, cached tokens.

  [[nodiscard]] absl::Duration Verify(int nodes) const {
    return verify->Predict(nodes + 1, context);
  }
  // Ĉ(N), the draft included.
  [[nodiscard]] double Seconds(int nodes) const {
    return absl::ToDoubleSeconds(draft + overhead + Verify(nodes));
  }
  // Ĉ(0), Ĉ(1), … Ĉ(max_nodes).
  [[nodiscard]] std::vector<double> Curve(int max_nodes) const {
    std::vector<double> seconds(static_cast<size_t>(max_nodes) + 1);
    verify->Curve(context, absl::MakeSpan(seconds));
    const double fixed = absl::ToDoubleSeconds(draft + overhead);
    for (double& value : seconds) value += fixed;
    return seconds;
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_CYCLE_COST_H_
