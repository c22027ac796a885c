// Arm: runs prompts under one policy, in process or through running services. The benchmark
// alternates between arms after each group of concurrent prompts, so that machine noise affects all
// arms equally.
#ifndef BASTION_CLIENT_BENCH_ARM_H_
#define BASTION_CLIENT_BENCH_ARM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/measurement.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/calibration_table.h"
#include "orchestrator/prior/transition_gains.h"

namespace bastion {

class Arm {
 public:
  virtual ~Arm() = default;
  // Runs the prompts concurrently. REQUIRES: at most settings.concurrency prompts.
  [[nodiscard]] virtual absl::StatusOr<std::vector<PromptMeasurement>> Run(
      const std::vector<BenchPrompt>& prompts, const BenchSettings& settings) = 0;
};

// The stages of an in-process arm. Not owned.
struct ArmStages {
  Verifier* verifier = nullptr;
  Drafter* drafter = nullptr;
  const TransitionGains* table = nullptr;  // Null: +prior uses only the request's own counts.
};

// Makes an in-process arm. Its policy predicts costs from the verify times in `calibration`. A
// token of `stop_tokens` ends an answer. INVALID_ARGUMENT for an unknown policy. REQUIRES: `stages`
// outlive the arm.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeLocalArm(
    const std::string& policy, const ArmStages& stages, const CalibrationTable& calibration,
    const std::vector<TokenId>& stop_tokens);

// Makes an arm that calls the orchestrator at `endpoint`.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeRemoteArm(const std::string& policy,
                                                                 const std::string& endpoint);

// The device description that the services at `endpoint` report.
[[nodiscard]] absl::StatusOr<std::string> RemoteDevice(const std::string& endpoint);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_ARM_H_
