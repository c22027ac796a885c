#include "orchestrator/policy/bastion_policy.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "orchestrator/policy/policy_options.h"
#include "orchestrator/tree/best_first.h"

namespace bastion {
namespace {

using Kind = PaperEstimator::Kind;

std::optional<Kind> KindOf(std::string_view word) {
  if (word.empty() || word == "static") return Kind::kStatic;
  if (word == "ema") return Kind::kEma;
  if (word == "ema-calib") return Kind::kEmaCalib;
  return std::nullopt;
}

// The first `count` candidates after each node. A drafter that serves several requests in one call
// may return more than this one asked for.
class FirstCandidates final : public Candidates {
 public:
  FirstCandidates(Candidates& all, int count) : all_(all), count_(count) {}
  [[nodiscard]] int max_depth() const override { return all_.max_depth(); }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) override {
    return First(all_.After(tree, node));
  }
  [[nodiscard]] CandidateList InBlock(const DraftTree& tree, NodeIndex start,
                                      NodeIndex node) override {
    return First(all_.InBlock(tree, start, node));
  }

 private:
  [[nodiscard]] CandidateList First(CandidateList list) const {
    list.size = std::min(list.size, count_);
    return list;
  }

  Candidates& all_;
  const int count_;
};

}  // namespace

std::unique_ptr<const PolicyKind> BastionPolicy::Parse(std::optional<std::string_view> argument) {
  std::optional<PolicyOptions> given = PolicyOptions::Parse(argument);
  if (!given.has_value()) return nullptr;
  const std::optional<Kind> kind = KindOf(given->word());
  if (!kind.has_value()) return nullptr;
  Options options;
  options.estimator.kind = *kind;
  double alpha = options.estimator.alpha_percent / 100.0;
  given->Take("alpha", 0.01, 1.0, &alpha);
  given->Take("k", 1, kLargestPolicyNumber, &options.candidates);
  int nodes = 0;
  given->Take("n", 1, kLargestPolicyNumber, &nodes);
  if (nodes > 0) options.nodes = nodes;
  options.estimator.alpha_percent = static_cast<int>(std::lround(100 * alpha));
  const bool whole_percents = std::abs(100 * alpha - options.estimator.alpha_percent) < 1e-6;
  if (!given->done() || !whole_percents) return nullptr;
  return std::make_unique<BastionPolicy>(options);
}

GrownTree GrowToSpeedupStop(TokenId root, Candidates& candidates, const CycleCost& cost,
                            const TreeLimits& limits) {
  DraftTree tree(root);
  BestFirst best_first(candidates, limits.nodes, &tree);
  // L_AR is the same for all N, so comparing Â/Ĉ is enough.
  const std::vector<double> seconds = cost.Curve(limits.nodes);
  double expected_length = 1;
  double best_speedup = -std::numeric_limits<double>::infinity();
  while (tree.nodes() < limits.nodes && !best_first.exhausted()) {
    expected_length += best_first.PeekScore();
    const double speedup = expected_length / seconds[tree.nodes() + 1];
    if (!(speedup > best_speedup)) return {std::move(tree), BudgetReason::kCost};
    best_speedup = speedup;
    best_first.AddNext();
  }
  const bool full = tree.nodes() == limits.nodes;
  return {std::move(tree), full ? limits.reason : BudgetReason::kExhausted};
}

bool BastionPolicy::RoundPays(const FurtherRound& round, const CostModel& costs) const {
  const DraftTree& tree = round.tree;
  // Path scores: of the nodes to expand; of the nodes with children, and of their first children.
  double expanded = 0, parents = 0, children = 0;
  std::vector<bool> has_child(tree.rows(), false);
  for (NodeIndex node = 0; node < tree.rows(); ++node) {
    const double score = std::exp(static_cast<double>(tree.log_score(node)));
    if (std::binary_search(round.paths.begin(), round.paths.end(), PathOf(tree, node))) {
      expanded += score;
    }
    if (node == 0 || has_child[tree.parent(node)]) continue;
    has_child[tree.parent(node)] = true;
    children += score;
    parents += std::exp(static_cast<double>(tree.log_score(tree.parent(node))));
  }
  if (parents == 0) return false;
  const CycleCost cost = costs.PaperCost(round.limits.context, options_.estimator);
  const DraftCost& rounds = costs.further_round();
  const double spent = (round.rounds - 1) * absl::ToDoubleSeconds(rounds.Predict(1));
  const auto paths = static_cast<int>(round.paths.size());
  const int nodes = std::min(tree.nodes() + paths * round.positions, round.limits.nodes);
  const double length = tree.ExpectedCommittedLength();
  double longer = length, level = expanded;
  for (int position = 0; position < round.positions; ++position) {
    level *= children / parents;
    longer += level;
  }
  const double seconds = cost.Seconds(tree.nodes()) + spent;
  const double more_seconds =
      cost.Seconds(nodes) + spent + absl::ToDoubleSeconds(rounds.Predict(paths));
  return longer / more_seconds > length / seconds;
}

GrownTree BastionPolicy::Grow(TokenId root, Candidates& candidates, const TreeLimits& limits,
                              int /*horizon*/, const CostModel& costs) const {
  TreeLimits own = limits;
  if (options_.nodes.has_value() && *options_.nodes <= limits.nodes) {
    own.nodes = *options_.nodes;
    own.reason = BudgetReason::kPolicy;
  }
  FirstCandidates first(candidates, options_.candidates);
  return GrowToSpeedupStop(root, first, costs.PaperCost(limits.context, options_.estimator), own);
}

}  // namespace bastion
