// A simulated drafter and verifier: runs decode cycles of a policy in simulated time. Header-only.
//
// The drafter states the same probabilities in every cycle of a run. The target's tokens are drawn
// from the true probabilities: truth[d][r] is the probability that the candidate of rank r at depth
// d+1 is the target's token, given that the target chose the path above it.
#ifndef BASTION_TESTS_ORCHESTRATOR_POLICY_SIMULATION_H_
#define BASTION_TESTS_ORCHESTRATOR_POLICY_SIMULATION_H_

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/cost/calibration.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/policy/tree_grower.h"
#include "tests/support/random_marginals.h"

namespace bastion::testing {

struct SimulatedDrafter {
  Probabilities stated;
  Probabilities truth;
  double off_spine = 1;  // Factor for `truth` below a candidate of rank > 0.
  double milliseconds = 0.5;

  // States the true probabilities.
  static SimulatedDrafter Calibrated(const Probabilities& probabilities) {
    return {probabilities, probabilities};
  }
  // Is never right, but gives its top candidate the probability `stated_top`.
  static SimulatedDrafter Useless(double stated_top) {
    Probabilities never(8, std::vector<double>(16, 0.0));
    return {Ladder(8, 16, stated_top), std::move(never)};
  }
};

struct SimulatedRun {
  int cycles = 0;
  int drafts = 0;
  double tokens = 0;
  double milliseconds = 0;
  double nodes = 0;

  double pace() const { return tokens / milliseconds; }
};

class Simulation {
 public:
  // `verify_milliseconds` is the true verify time by rows; `noise` the relative spread of the
  // times.
  explicit Simulation(std::function<double(int rows)> verify_milliseconds, double noise = 0.0,
                      const PriorInputs& inputs = {})
      : verify_(std::move(verify_milliseconds)),
        noise_(noise),
        costs(Calibrated()),
        memory(inputs) {}

  TreeGrower NewGrower(const std::string& policy) {
    return TreeGrower(*Policy::Parse(policy), /*greedy=*/true, &costs, &memory);
  }

  SimulatedRun Run(TreeGrower& grower, const SimulatedDrafter& drafter, int cycles) {
    SimulatedRun run;
    const Marginals marginals = MarginalsOf(drafter.stated);
    const TreeLimits limits = {kContext, 127, marginals.positions};
    for (; run.cycles < cycles; ++run.cycles) {
      const bool drafts = grower.DecideDraft(kRoot, limits);
      const double draft_ms = drafts ? drafter.milliseconds * Noise() : 0.0;
      if (drafts) costs.ObserveDraft(absl::Milliseconds(draft_ms));
      const GrownTree grown =
          drafts ? grower.Grow(kRoot, marginals, limits) : grower.GrowWithoutDraft(kRoot, limits);
      const double verify_ms = verify_(grown.tree.rows()) * Noise();
      ObserveVerify(grown.tree.rows(), verify_ms);
      const Acceptance acceptance = Accept(grown.tree, drafter);
      grower.Observe(grown, acceptance, absl::Milliseconds(draft_ms));

      run.drafts += drafts ? 1 : 0;
      run.nodes += grown.tree.nodes();
      run.tokens += acceptance.committed_length();
      run.milliseconds += draft_ms + verify_ms + kOverheadMs;
    }
    return run;
  }

  // Tokens per millisecond of plain decoding.
  double PlainPace() const { return 1 / (verify_(1) + kOverheadMs); }

  void SetVerify(std::function<double(int rows)> verify_milliseconds) {
    verify_ = std::move(verify_milliseconds);
  }

 private:
  static constexpr TokenId kRoot = 1;
  static constexpr TokenId kOther = 1'000'000;  // A token that is never a candidate.
  static constexpr int kContext = 100;
  static constexpr double kOverheadMs = 0.1;

  double Noise() {
    return noise_ > 0 ? std::exp(std::normal_distribution<>(0.0, noise_)(random_)) : 1.0;
  }

  CostModel Calibrated() {
    CalibrationTable table;
    for (const int rows : CalibrationOptions().row_counts) {
      const double seconds = 1e-3 * verify_(rows);
      table.points.push_back({rows, kContext, seconds, seconds + 1e-3 * kOverheadMs});
    }
    TargetInfo target;
    target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
    target.peaks = {1e6, 1e6};
    return *CostModel::Fit(target, table);
  }

  void ObserveVerify(int rows, double verify_ms) {
    TimingTrace trace;
    trace.forward = absl::Milliseconds(verify_ms);
    trace.rows = rows;
    trace.contexts = {kContext};
    costs.ObserveVerify(trace, trace.forward + absl::Milliseconds(kOverheadMs));
  }

  // Draws the target's tokens depth by depth and follows them down the tree.
  Acceptance Accept(const DraftTree& tree, const SimulatedDrafter& drafter) {
    Acceptance acceptance;
    NodeIndex at = 0;
    bool off_spine = false;
    while (true) {
      acceptance.next = DrawToken(drafter, tree.depth(at), off_spine);
      NodeIndex child = kNoNode;
      for (NodeIndex i = at + 1; i < tree.rows(); ++i) {
        if (tree.parent(i) == at && tree.token(i) == acceptance.next) child = i;
      }
      if (child == kNoNode) return acceptance;
      acceptance.path.push_back(child);
      off_spine = off_spine || acceptance.next % 100 != 0;
      at = child;
    }
  }

  TokenId DrawToken(const SimulatedDrafter& drafter, int depth, bool off_spine) {
    if (depth >= static_cast<int>(drafter.truth.size())) return kOther;
    double left = std::uniform_real_distribution<>()(random_);
    for (size_t rank = 0; rank < drafter.truth[depth].size(); ++rank) {
      left -= drafter.truth[depth][rank] * (off_spine ? drafter.off_spine : 1.0);
      if (left < 0) return 100 * depth + static_cast<TokenId>(rank);
    }
    return kOther;
  }

  std::function<double(int rows)> verify_;
  double noise_;
  std::mt19937 random_{1};

 public:
  CostModel costs;
  SpeculationMemory memory;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_POLICY_SIMULATION_H_
