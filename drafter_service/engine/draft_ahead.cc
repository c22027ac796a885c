#include "drafter_service/engine/draft_ahead.h"

#include <algorithm>
#include <utility>

namespace bastion::drafter {
namespace {

// Keeps the first `candidates` candidates of each position. Candidates are sorted, best first.
Marginals Narrowed(Marginals wide, int candidates) {
  if (wide.candidates <= candidates) return wide;
  Marginals narrow;
  narrow.positions = wide.positions;
  narrow.candidates = candidates;
  narrow.buckets = std::move(wide.buckets);
  for (int p = 0; p < wide.positions; ++p) {
    const auto first = static_cast<int64_t>(p) * wide.candidates;
    const auto last = first + candidates;
    narrow.tokens.insert(narrow.tokens.end(), wide.tokens.begin() + first,
                         wide.tokens.begin() + last);
    narrow.log_probs.insert(narrow.log_probs.end(), wide.log_probs.begin() + first,
                            wide.log_probs.begin() + last);
  }
  return narrow;
}

}  // namespace

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
    marginals = Narrowed(std::move(marginals), frontier.candidates);
  }
  return true;
}

}  // namespace bastion::drafter
