#include "orchestrator/cycle/forced_tokens.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace bastion {
namespace {

constexpr double kMemory = 64;  // Outcomes.

}  // namespace

void ForcedTokens::AddTo(DraftTree* tree, DecodeSequence& sequence, int room, int max_depth,
                         ForestPlanner& planner) {
  const DecodeSequence::ForcedOutcome outcome = sequence.TakeForcedOutcome();
  const int tokens = outcome.chosen + outcome.replaced;
  if (tokens > 0) chosen_.Add(outcome.chosen, tokens, kMemory);
  if (room <= 0 || max_depth <= 0) return;
  absl::Span<const TokenId> forced = sequence.FindForced();
  forced = forced.first(std::min<size_t>(forced.size(), max_depth));
  const int known = LengthInTree(*tree, forced);
  int added = std::min(room, static_cast<int>(forced.size()) - known);
  if (sequence.policy().planned()) {
    std::vector<double> values;
    for (int n = 1; n <= added; ++n) values.push_back(std::pow(rate(), known + n));
    added = planner.ChooseFurtherNodes(
        {.values = values, .weight = sequence.weight(), .mask_seconds = sequence.mask_seconds()});
  }
  AddPath(forced.first(known + added), tree);
}

}  // namespace bastion
