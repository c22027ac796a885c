// CycleMode: what a cycle did, for metrics and the console. Plain data.
#ifndef BASTION_ORCHESTRATOR_OBSERVE_CYCLE_MODE_H_
#define BASTION_ORCHESTRATOR_OBSERVE_CYCLE_MODE_H_

#include "orchestrator/cycle/cycle_summary.h"

namespace bastion {

// From the most to the least speculative.
enum class CycleMode { kDrafted, kDraftFree, kPlain, kResting, kPrompts };
inline constexpr const char* kCycleModeNames[] = {"drafted", "draft_free", "plain", "resting",
                                                  "prompts"};

[[nodiscard]] inline CycleMode ModeOf(const CycleSummary& cycle) {
  if (cycle.size.sequences == 0) return CycleMode::kPrompts;
  if (cycle.drafted) return CycleMode::kDrafted;
  if (cycle.nodes() > 0) return CycleMode::kDraftFree;
  return cycle.rested ? CycleMode::kResting : CycleMode::kPlain;
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OBSERVE_CYCLE_MODE_H_
