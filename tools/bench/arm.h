// Arm: runs a load under one policy, in process or through running services. The benchmark
// alternates between arms, so that machine noise affects all arms equally.
#ifndef BASTION_TOOLS_BENCH_ARM_H_
#define BASTION_TOOLS_BENCH_ARM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/latency_profile.h"
#include "orchestrator/policy/acceptance_file.h"
#include "orchestrator/prior/transition_gains.h"
#include "tools/bench/cycle_trace.h"
#include "tools/bench/load_generator.h"
#include "tools/bench/load_run.h"
#include "tools/bench/measurement.h"

namespace bastion {

class Arm {
 public:
  virtual ~Arm() = default;
  // Runs all requests of the plan. Keeps what the policy learned for the next run. An error names
  // the prompt that failed.
  [[nodiscard]] virtual absl::StatusOr<LoadRun> Run(const LoadPlan& plan,
                                                    const BenchSettings& settings) = 0;
};

// Waits until the clock of the arm has advanced by the argument.
using WaitFunction = std::function<void(absl::Duration)>;

// The calibrations of acceptance that every arm begins with, and those that the arms ended with.
struct AcceptanceFiles {
  AcceptanceFile before, after;
};

// The stages of an in-process arm. Not owned.
struct ArmStages {
  Verifier* verifier = nullptr;
  Drafter* drafter = nullptr;
  const TransitionGains* table = nullptr;  // Null: +prior uses only the request's own counts.
  const Clock* clock = &Clock::Real();
  WaitFunction wait = absl::SleepFor;
  TraceRecorder* recorder = nullptr;      // Gets a trace of each cycle. Null: none.
  AcceptanceFiles* acceptance = nullptr;  // Null: every arm starts without calibration.
};

// Makes an in-process arm. Its policy predicts costs from the verify times in `profile`. A
// token of `stop_tokens` ends an answer. INVALID_ARGUMENT for an unknown policy. REQUIRES: `stages`
// outlive the arm.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeLocalArm(
    const std::string& policy, const ArmStages& stages, const LatencyProfile& profile,
    const std::vector<TokenId>& stop_tokens);

// Makes an arm that calls the orchestrator at `endpoint`, with one call per live request.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeRemoteArm(const std::string& policy,
                                                                 const std::string& endpoint);

// The device description that the services at `endpoint` report.
[[nodiscard]] absl::StatusOr<std::string> RemoteDevice(const std::string& endpoint);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_ARM_H_
