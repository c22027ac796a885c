// Judge: measures a drafter that was just saved with the serving engine, because losses mislead.
#ifndef BASTION_TOOLS_TRAIN_LOOP_JUDGE_H_
#define BASTION_TOOLS_TRAIN_LOOP_JUDGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/measurement.h"
#include "tools/inprocess/local_stages.h"

namespace bastion::train {

struct JudgeOptions {
  LocalOptions models = {};                // drafter_folder is not used.
  std::vector<BenchPrompt> prompts;        // Held-out prompts.
  std::vector<std::string> policies = {};  // The first one decides which drafter is the best.
  int max_new_tokens = 64;
};

// τ (committed tokens per cycle) under one policy.
struct Verdict {
  std::string policy;
  double tau = 0;
};

// Decodes all prompts greedily with the drafter in `folder`, once per policy. Errors: those of
// LocalStages::Create; INVALID_ARGUMENT for an unknown policy.
[[nodiscard]] absl::StatusOr<std::vector<Verdict>> JudgeDrafter(const JudgeOptions& options,
                                                                const std::string& folder);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_JUDGE_H_
