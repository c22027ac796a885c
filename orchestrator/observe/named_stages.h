// The names of a cycle's stages in metrics and spans.
#ifndef BASTION_ORCHESTRATOR_OBSERVE_NAMED_STAGES_H_
#define BASTION_ORCHESTRATOR_OBSERVE_NAMED_STAGES_H_

#include "orchestrator/cost/stage_times.h"

namespace bastion {

struct NamedStage {
  const char* name;
  const char* attribute;  // The attribute of a span, in milliseconds.
  absl::Duration StageTimes::*time;
};

inline constexpr NamedStage kStages[] = {
    {"draft", "bastion.stage.draft_ms", &StageTimes::draft},
    {"tree", "bastion.stage.tree_ms", &StageTimes::tree},
    {"verify_queue", "bastion.stage.verify_queue_ms", &StageTimes::verify_queue},
    {"verify", "bastion.stage.verify_ms", &StageTimes::verify},
    {"commit", "bastion.stage.commit_ms", &StageTimes::commit},
    {"audit", "bastion.stage.audit_ms", &StageTimes::audit},
    {"transfer", "bastion.stage.transfer_ms", &StageTimes::transfer},
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OBSERVE_NAMED_STAGES_H_
