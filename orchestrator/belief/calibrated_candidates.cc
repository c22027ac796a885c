#include "orchestrator/belief/calibrated_candidates.h"

#include <algorithm>
#include <cmath>

namespace bastion {
namespace {

// Candidates of lower rank hardly ever are the target's choice, and add nothing to the calibration.
constexpr int kObservedRanks = 16;

PathKind KindOf(bool on_spine, int rank) {
  if (!on_spine) return PathKind::kOffSpine;
  return rank == 0 ? PathKind::kSpine : PathKind::kSibling;
}

}  // namespace

CalibratedCandidates::CalibratedCandidates(Candidates& inner,
                                           const AcceptanceCalibration& calibration,
                                           const Trust& trust, double min_value)
    : inner_(inner),
      calibration_(calibration),
      trust_(trust),
      min_log_value_(static_cast<float>(std::log(min_value))) {}

float CalibratedCandidates::Calibrated(float log_prob, bool on_spine, int rank, int depth) const {
  const float factor = calibration_.LogFactor(KindOf(on_spine, rank), depth, log_prob);
  return trust_.Apply(std::min(0.0f, log_prob + factor));
}

CandidateList CalibratedCandidates::After(const DraftTree& tree, NodeIndex node) {
  const CandidateList list = inner_.After(tree, node);
  if (list.size == 0) return {};
  const bool on_spine =
      node == 0 || (tree.parent(node) == spine_tip_ && tree.token(node) == spine_token_);
  if (on_spine) {
    spine_tip_ = node;
    spine_token_ = list.tokens[0];
  }
  // No correction raises a candidate by more than this.
  const float largest_raise = std::log(AcceptanceCalibration::kMaxFactor) +
                              static_cast<float>(std::log(std::max(1.0, trust_.odds())));
  const float min_log_prob = min_log_value_ - tree.log_score(node);
  const int depth = tree.depth(node) + 1;
  scored_.clear();
  for (int rank = 0; rank < list.size; ++rank) {
    const float log_prob = list.log_scores[rank];
    if (!(log_prob + largest_raise >= min_log_prob)) break;
    const float calibrated = Calibrated(log_prob, on_spine, rank, depth);
    if (calibrated >= min_log_prob) scored_.push_back({list.tokens[rank], calibrated});
  }
  SortBestFirst(scored_);
  CandidateList calibrated = arena_.Store(scored_);
  calibrated.bucket = list.bucket;
  return calibrated;
}

void ObserveChoices(Candidates& candidates, TokenId root, absl::Span<const TokenId> chosen,
                    AcceptanceCalibration* calibration, Trust* trust) {
  DraftTree path(root);
  bool on_spine = true;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto node = NodeIndex::Of(i);
    const CandidateList list = candidates.After(path, node);
    if (list.size == 0) return;
    const int depth = static_cast<int>(i) + 1;
    double predicted = 0;
    bool accepted = false;
    for (int rank = 0; rank < std::min(list.size, kObservedRanks); ++rank) {
      const float log_prob = list.log_scores[rank];
      if (std::isinf(log_prob)) break;
      const PathKind kind = KindOf(on_spine, rank);
      const bool right = list.tokens[rank] == chosen[i];
      predicted += std::exp(log_prob + calibration->LogFactor(kind, depth, log_prob));
      accepted = accepted || right;
      calibration->Observe(kind, depth, log_prob, std::exp(trust->Apply(log_prob)), right);
    }
    trust->Observe(predicted, accepted);
    on_spine = on_spine && chosen[i] == list.tokens[0];
    path.Add(node, chosen[i], 0);
  }
}

}  // namespace bastion
