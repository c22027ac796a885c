#include "orchestrator/belief/reliability.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace bastion {
namespace {

// The probability of `token` after `parent` by `candidates`. 0 if it is not listed.
double StatedProbability(Candidates& candidates, const DraftTree& tree, NodeIndex parent,
                         TokenId token) {
  const CandidateList list = candidates.After(tree, parent);
  const TokenId* const end = list.tokens + list.size;
  const TokenId* const found = std::find(list.tokens, end, token);
  if (found == end) return 0;
  return std::min(1.0, std::exp(static_cast<double>(list.log_scores[found - list.tokens])));
}

}  // namespace

void ReliabilityTable::Observe(double stated, bool accepted) {
  Bin& bin = bins_[std::clamp(static_cast<int>(stated * kBins), 0, kBins - 1)];
  ++bin.count;
  bin.accepted += accepted ? 1 : 0;
  bin.stated += stated;
}

void ReliabilityTable::Add(const ReliabilityTable& other) {
  for (int i = 0; i < kBins; ++i) {
    bins_[i].count += other.bins_[i].count;
    bins_[i].accepted += other.bins_[i].accepted;
    bins_[i].stated += other.bins_[i].stated;
  }
}

int64_t ReliabilityTable::count() const {
  int64_t count = 0;
  for (const Bin& bin : bins_) count += bin.count;
  return count;
}

double ReliabilityTable::expected_calibration_error() const {
  double error = 0;
  for (const Bin& bin : bins_) error += std::abs(bin.stated - static_cast<double>(bin.accepted));
  return count() > 0 ? error / static_cast<double>(count()) : 0;
}

void Reliability::Add(const Reliability& other) {
  before.Add(other.before);
  after.Add(other.after);
}

void ObserveReliability(const DraftTree& tree, absl::Span<const TokenId> chosen, Candidates* stated,
                        Reliability* reliability) {
  std::vector<bool> accepted(static_cast<size_t>(tree.rows()), false);
  accepted[0] = true;
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    const NodeIndex parent = tree.parent(node);
    if (!accepted[parent]) continue;
    const auto depth = static_cast<size_t>(tree.depth(node));
    accepted[node] = depth <= chosen.size() && tree.token(node) == chosen[depth - 1];
    const double scored =
        std::min(1.0, std::exp(static_cast<double>(tree.log_score(node) - tree.log_score(parent))));
    if (stated == nullptr) {
      reliability->before.Observe(scored, accepted[node]);
    } else {
      reliability->after.Observe(scored, accepted[node]);
      reliability->before.Observe(StatedProbability(*stated, tree, parent, tree.token(node)),
                                  accepted[node]);
    }
  }
}

}  // namespace bastion
