// An arm of the benchmark: one policy, in process or through running services. Arms take turns
// prompt by prompt, so that noise of the machine hits all alike.
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
  // Runs the prompts together (settings.concurrency of them at most).
  [[nodiscard]] virtual absl::StatusOr<std::vector<PromptMeasurement>> Run(
      const std::vector<BenchPrompt>& prompts, const BenchSettings& settings) = 0;
};

// The stages that an arm in process runs on. Not owned.
struct ArmStages {
  Verifier* verifier = nullptr;
  Drafter* drafter = nullptr;
  const TransitionGains* table = nullptr;  // None: +prior has the request alone.
};

// In process. The stages must outlive the arm; `stop_tokens` end an answer.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeLocalArm(
    const std::string& policy, const ArmStages& stages, const CalibrationTable& table,
    const std::vector<TokenId>& stop_tokens);

// Through the orchestrator at `endpoint`.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeRemoteArm(const std::string& policy,
                                                                 const std::string& endpoint);

// The device that the services at `endpoint` run on, in their words.
[[nodiscard]] absl::StatusOr<std::string> RemoteDevice(const std::string& endpoint);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_ARM_H_
