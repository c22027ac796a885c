#include "drafter_service/engine/draft_ahead.h"

#include <algorithm>
#include <utility>

namespace bastion::drafter {

bool HasMarginals(const Draft& draft) {
  return std::any_of(draft.marginals.begin(), draft.marginals.end(),
                     [](const Marginals& marginals) { return !marginals.empty(); });
}

void DraftAhead::PredictNext(absl::Span<const Frontier> frontiers) {
  const auto before = std::exchange(predicted_, {});
  for (const Frontier& frontier : frontiers) {
    Frontier& next = predicted_[frontier.sequence].frontier;
    next = frontier;
    const auto found = before.find(frontier.sequence);
    if (found == before.end()) continue;
    // The number of candidates varies between requests. The largest number so far serves most of
    // them.
    next.candidates = std::max(next.candidates, found->second.frontier.candidates);
  }
}

std::vector<Frontier> DraftAhead::AddArrival(SequenceId sequence, Position committed,
                                             TokenId root) {
  const auto found = predicted_.find(sequence);
  if (found == predicted_.end() || found->second.arrived) return {};
  // The Expand with this many committed tokens arrived before the features and has been answered.
  if (committed <= found->second.frontier.committed) return {};
  found->second.arrived = true;
  found->second.frontier.committed = committed;
  found->second.frontier.root = root;
  found->second.frontier.new_tokens.clear();
  std::vector<Frontier> all;
  for (const auto& [id, prediction] : predicted_) {
    if (!prediction.arrived) return {};
    all.push_back(prediction.frontier);
  }
  return all;
}

void DraftAhead::Keep(absl::Span<const Frontier> frontiers, std::vector<Draft> drafts) {
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const auto found = predicted_.find(frontiers[i].sequence);
    if (found == predicted_.end()) continue;
    // A draft that failed is tried again when it is requested.
    if (HasMarginals(drafts[i])) found->second.reply = std::move(drafts[i]);
  }
}

bool DraftAhead::Take(const Frontier& frontier, Draft& draft) {
  const auto found = predicted_.find(frontier.sequence);
  if (found == predicted_.end()) return false;
  const Frontier& predicted = found->second.frontier;
  Draft& reply = found->second.reply;
  if (reply.marginals.empty() || predicted.committed != frontier.committed ||
      predicted.root != frontier.root || predicted.paths != frontier.paths ||
      predicted.sampling != frontier.sampling || predicted.coupled != frontier.coupled ||
      predicted.candidates < frontier.candidates) {
    return false;
  }
  draft = std::move(reply);
  reply = {};
  for (Marginals& marginals : draft.marginals) {
    marginals = BestCandidates(std::move(marginals), frontier.candidates);
  }
  return true;
}

}  // namespace bastion::drafter
