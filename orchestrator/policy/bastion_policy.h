// bastion: the stop rule of the BASTION paper (Algorithm 1). It grows the best-first tree while the
// estimated speedup Ŝ(N) = Â(T_N)·L_AR / Ĉ(N) increases, and returns the tree before its first
// decrease. T_N is the best-first tree of N nodes and Â its expected committed length. Ĉ and L_AR:
// cycle_cost.h.
//
// As in the paper, Â uses the drafter's own probabilities, the first node is always added if there
// is a candidate, and growth stops when the speedup does not increase. If Ĉ is convex, the returned
// tree is the global maximum (Proposition 2.4). On a staircase it may be only a local maximum; see
// forest_planner.h.
//
// bastion[:ESTIMATOR][,name=value…]. ESTIMATOR is static (the default), ema or ema-calib
// (paper_estimators.h). The paper names no values for the options:
//
//   alpha=A   α of the two averages, from 0.01 to 1 in steps of 0.01. Default: 0.1.
//   k=K       Candidates per position, K of the lattice (section 2.3). Default: 64.
//   n=N       N_max of Algorithm 1. Default: as many nodes as the forward has room for.
//
// Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_POLICY_BASTION_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_BASTION_POLICY_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/cost/paper_estimators.h"
#include "orchestrator/policy/policy_kind.h"

namespace bastion {

class BastionPolicy final : public NamedPolicyKind {
 public:
  struct Options {
    PaperEstimator estimator = {};
    int candidates = kMaxUsefulCandidates;  // K
    std::optional<int> nodes;               // N_max. nullopt: the forward's limit.
  };

  // Null if the argument is not valid.
  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument);
  explicit BastionPolicy(const Options& options) : options_(options) {}

  int CandidatesFor(int max_nodes) const override {
    return std::min(options_.candidates, max_nodes);
  }
  // The paper drafts in one pass. With a drafter that expands nodes, a further round is taken if it
  // is expected to increase Ŝ: if each node gets one child, as likely as first children in the tree
  // so far are on average, for the time of the round and of the rows.
  bool RoundPays(const FurtherRound& round, const CostModel& costs) const override;
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;

  [[nodiscard]] const Options& options() const { return options_; }

 private:
  const Options options_;
};

// The policy itself.
[[nodiscard]] GrownTree GrowToSpeedupStop(TokenId root, Candidates& candidates,
                                          const CycleCost& cost, const TreeLimits& limits);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_BASTION_POLICY_H_
