#include "tools/train/loop/judge.h"

#include <algorithm>
#include <memory>

#include "common/base/status.h"
#include "orchestrator/profile/verify_profile.h"
#include "tools/bench/arm.h"

namespace bastion::train {
namespace {

constexpr uint64_t kProfileSession = uint64_t{1} << 61;  // Arms use ids from 1.
constexpr int kLive = 4;  // Few enough that whole trees of 64 nodes fit into a forward.

double MeanLength(const LoadRun& run) {
  double tokens = 0, cycles = 0;
  for (const PromptMeasurement& request : run.requests) {
    for (const MeasuredCycle& cycle : request.cycles) tokens += cycle.committed_length;
    cycles += static_cast<double>(request.cycles.size());
  }
  return cycles == 0 ? 0 : tokens / cycles;
}

LoadPlan PlanOf(const JudgeOptions& options) {
  const int live = std::min(kLive, static_cast<int>(options.prompts.size()));
  LoadPlan plan = {.level = {.concurrency = live}, .requests = {}, .max_live = live};
  for (const BenchPrompt& prompt : options.prompts) {
    plan.requests.push_back({&prompt, options.max_new_tokens, absl::ZeroDuration()});
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::vector<Verdict>> JudgeDrafter(const JudgeOptions& options,
                                                  const std::string& folder) {
  LocalOptions models = options.models;
  models.drafter_folder = folder;
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalStages> stages, LocalStages::Create(models));
  Verifier& verifier = stages->verifier();
  // The policies have fixed budgets: one point is enough.
  ProfileOptions profile_options;
  profile_options.row_counts = {1, 64};
  profile_options.further_row_counts.clear();
  profile_options.contexts = {64};
  profile_options.repetitions = 1;
  profile_options.session = kProfileSession;
  ASSIGN_OR_RETURN(const LatencyProfile profile,
                   MeasureProfile(verifier, Clock::Real(), profile_options));
  const LoadPlan plan = PlanOf(options);
  std::vector<Verdict> verdicts;
  for (const std::string& policy : options.policies) {
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Arm> arm,
        MakeLocalArm(policy, {&verifier, &stages->drafter(), stages->table()}, profile, {}));
    BenchSettings settings;
    settings.max_new_tokens = options.max_new_tokens;
    settings.ignore_eos = true;
    ASSIGN_OR_RETURN(const LoadRun run, arm->Run(plan, settings));
    verdicts.push_back({policy, MeanLength(run)});
  }
  return verdicts;
}

}  // namespace bastion::train
