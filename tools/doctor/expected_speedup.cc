#include "tools/doctor/expected_speedup.h"

#include <algorithm>
#include <optional>

namespace bastion::doctor {
namespace {

// Thresholds: 1, then smaller by this factor, down to the smallest.
constexpr double kThresholdStep = 0.9;
constexpr double kLeastThreshold = 1e-3;

// A correction of more than this factor would rest on noise.
constexpr double kLargestCorrection = 2;

struct KeptNodes {
  int nodes = 0, accepted = 0;
};

KeptNodes Keep(const RecordedTree& tree, double threshold) {
  KeptNodes kept;
  for (const RecordedNode& node : tree) {
    if (node.path_probability < threshold) continue;
    ++kept.nodes;
    if (node.accepted) ++kept.accepted;
  }
  return kept;
}

// Decodes in batches of costs.requests trees. nullopt if a batch has more nodes than costs are
// known for. REQUIRES: `trees` is not empty.
std::optional<Speculation> Decode(absl::Span<const KeptNodes> trees, const CycleCosts& costs,
                                  bool drafted) {
  const std::vector<double>& curve = drafted ? costs.after_draft : costs.without_draft;
  const size_t stride = trees.size() / costs.requests + 1;
  double nodes = 0, accepted = 0, seconds = 0;
  for (size_t batch = 0; batch < trees.size(); ++batch) {
    size_t batch_nodes = 0;
    for (int request = 0; request < costs.requests; ++request) {
      const KeptNodes& kept = trees[(batch + request * stride) % trees.size()];
      batch_nodes += kept.nodes;
      accepted += kept.accepted;
    }
    if (batch_nodes >= curve.size()) return std::nullopt;
    nodes += static_cast<double>(batch_nodes);
    seconds += curve[batch_nodes];
  }
  const auto batches = static_cast<double>(trees.size());
  Speculation found;
  found.nodes = nodes / (batches * costs.requests);
  found.committed = 1 + accepted / (batches * costs.requests);
  found.cycle_seconds =
      seconds / batches + costs.planning_seconds + (drafted ? costs.draft_seconds : 0);
  found.break_even = found.cycle_seconds / costs.plain_seconds();
  found.speedup = found.committed / found.break_even;
  return found;
}

}  // namespace

Speculation BestSpeculation(absl::Span<const RecordedTree> trees, const CycleCosts& costs,
                            bool drafted) {
  Speculation best;
  best.speedup = 0;
  if (trees.empty()) return best;
  for (double threshold = 1; threshold >= kLeastThreshold; threshold *= kThresholdStep) {
    std::vector<KeptNodes> kept;
    kept.reserve(trees.size());
    for (const RecordedTree& tree : trees) kept.push_back(Keep(tree, threshold));
    const std::optional<Speculation> found = Decode(kept, costs, drafted);
    if (!found.has_value()) break;  // Lower thresholds keep more nodes.
    if (found->speedup <= best.speedup) continue;
    best = *found;
    best.threshold = threshold;
  }
  return best;
}

double CorrectedSpeedup(double modeled, double measured_at_one, double modeled_at_one) {
  if (modeled_at_one <= 1) return modeled;
  const double correction =
      std::clamp((measured_at_one - 1) / (modeled_at_one - 1), 0.0, kLargestCorrection);
  return 1 + (modeled - 1) * correction;
}

double WholeSpeedup(double decode_speedup, double prefill_seconds, double plain_seconds) {
  const double total = prefill_seconds + plain_seconds;
  if (total <= 0 || decode_speedup <= 0) return 1;
  return total / (prefill_seconds + plain_seconds / decode_speedup);
}

}  // namespace bastion::doctor
