#include "drafter_service/replay/acceptance_recorder.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace bastion::drafter {
namespace {

// Probabilities of a profile lie in (0, 1).
constexpr float kMinProbability = 1e-6F;

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptanceRecorder>> AcceptanceRecorder::Create(
    std::unique_ptr<DrafterEngine> engine) {
  const DrafterInfo& info = engine->info();
  if (info.expands_nodes) {
    return absl::FailedPreconditionError(
        absl::StrCat(info.model,
                     " expands nodes; acceptance is recorded only for drafters that "
                     "predict all positions from the root, e.g. DFlash"));
  }
  const std::string model = info.model;
  std::unique_ptr<AcceptanceRecorder> recorder(new AcceptanceRecorder(std::move(engine)));
  recorder->profile_.name = model;
  recorder->profile_.source = absl::StrCat("recorded from ", model);
  return recorder;
}

void AcceptanceRecorder::Drafted(const Frontier& frontier, const std::vector<TokenId>& /*tokens*/,
                                 Draft& draft) {
  for (const Marginals& marginals : draft.marginals) {
    if (marginals.empty()) continue;
    blocks_[frontier.sequence].push_back({frontier.committed, marginals});
  }
}

void AcceptanceRecorder::Closing(SequenceId sequence, const std::vector<TokenId>& tokens) {
  const auto found = blocks_.find(sequence);
  if (found == blocks_.end()) return;
  for (const auto& [committed, marginals] : found->second) {
    const size_t first = static_cast<size_t>(committed) + 1;
    if (first + marginals.positions > tokens.size()) continue;
    ProfiledBlock block;
    for (int p = 0; p < marginals.positions; ++p) {
      block.top.push_back(
          std::clamp(std::exp(marginals.log_prob(p, 0)), kMinProbability, 1 - kMinProbability));
      block.ranks.push_back(RankOf(tokens[first + p], marginals, p));
    }
    profile_.blocks.push_back(std::move(block));
  }
  blocks_.erase(found);
}

}  // namespace bastion::drafter
