#include "orchestrator/policy/assisted_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace bastion {
namespace {

constexpr size_t kLeastTokens = 5;
constexpr double kFalseNegativeCost = 3;

double ProbabilityOf(const DraftTree& tree, NodeIndex node) {
  return std::exp(static_cast<double>(tree.log_score(node) - tree.log_score(tree.parent(node))));
}

}  // namespace

double BestThreshold(absl::Span<const AssistedToken> tokens) {
  std::vector<AssistedToken> sorted(tokens.begin(), tokens.end());
  std::sort(sorted.begin(), sorted.end(), [](const AssistedToken& a, const AssistedToken& b) {
    return a.probability > b.probability;
  });
  const auto accepted = static_cast<double>(std::count_if(
      sorted.begin(), sorted.end(), [](const AssistedToken& token) { return token.accepted; }));
  const double rejected = static_cast<double>(sorted.size()) - accepted;
  double true_positives = 0, false_positives = 0;
  double best = sorted.front().probability, lowest_cost = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sorted.size(); ++i) {
    (sorted[i].accepted ? true_positives : false_positives) += 1;
    // A threshold lets all tokens of its probability pass.
    if (i + 1 < sorted.size() && sorted[i + 1].probability == sorted[i].probability) continue;
    const double cost =
        false_positives / rejected + kFalseNegativeCost * (1 - true_positives / accepted);
    if (cost >= lowest_cost) continue;
    lowest_cost = cost;
    best = sorted[i].probability;
  }
  return best;
}

GrownTree AssistedPolicy::Grow(TokenId root, Candidates& candidates, const TreeLimits& limits,
                               int horizon, const CostModel& /*costs*/) const {
  DraftTree tree(root);
  const int longest = std::min({kTokens, candidates.max_depth(), limits.nodes});
  double log_score = 0;
  bool confident = true;
  for (NodeIndex tip = 0; tip < longest && confident; ++tip) {
    const CandidateList list = candidates.After(tree, tip);
    if (list.size == 0 || std::isinf(list.log_scores[0])) break;
    const auto log_probability = static_cast<double>(list.log_scores[0]);
    log_score += log_probability;
    tree.Add(tip, list.tokens[0], static_cast<float>(log_score));
    confident = std::exp(log_probability) >= threshold_;
  }
  const int wanted = confident ? kTokens : tree.nodes();
  return Limit(std::move(tree), wanted, limits, horizon);
}

void AssistedPolicy::Observe(const DraftTree& tree, int accepted) {
  for (NodeIndex node = 1; node <= std::min(accepted + 1, tree.nodes()); ++node) {
    tokens_.push_back({ProbabilityOf(tree, node), node <= accepted});
  }
  const auto is_accepted = [](const AssistedToken& token) { return token.accepted; };
  const bool both_kinds = std::any_of(tokens_.begin(), tokens_.end(), is_accepted) &&
                          !std::all_of(tokens_.begin(), tokens_.end(), is_accepted);
  if (tokens_.size() > kLeastTokens && both_kinds) threshold_ = BestThreshold(tokens_);
}

}  // namespace bastion
