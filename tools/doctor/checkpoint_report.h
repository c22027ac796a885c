// CheckpointReport: whether checkpoints will run on this machine, how much memory they need and
// roughly how fast they will be. Plain data.
#ifndef BASTION_TOOLS_DOCTOR_CHECKPOINT_REPORT_H_
#define BASTION_TOOLS_DOCTOR_CHECKPOINT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/formats.h"
#include "tools/doctor/checkpoint_check.h"

namespace bastion::doctor {

struct CheckpointOptions {
  std::string target;   // Folder.
  std::string drafter;  // Folder. Empty: none.
  nn::Formats formats = {};
  nn::Formats drafter_formats = {};
  std::shared_ptr<nn::Device> device;
  int kv_tokens = 65536;  // As for the services, also the following.
  int max_rows = 512;
  int max_running = 16;
};

// What one service says when it starts.
struct Verdict {
  std::string service;  // "bastion-verifier", …
  absl::Status status;
  std::string remedy;  // What to do. Empty if the status is OK.
};

// Bytes that one service needs.
struct MemoryNeed {
  std::string service;
  int64_t weights = 0;
  int64_t kv_cache = 0;  // When it is full.
  int64_t kv_token = 0;  // A cached token.
  int64_t features = 0;  // Features of as many tokens, up to the verifier's limit.
  int64_t buffers = 0;   // For the largest forward.
  [[nodiscard]] int64_t total() const { return weights + kv_cache + features + buffers; }
};

// The least time of a forward: that of memory and arithmetic.
struct EstimatedForward {
  std::string name;  // "decode", "verify" or "draft"
  int rows = 0;
  int context = 0;
  double seconds = 0;
};

// The device's limits.
struct MeasuredLimits {
  std::string device;
  double bytes_per_second = 0;
  double target_flops = 0;   // FLOP/s with the format of the target's weights.
  double drafter_flops = 0;  // With that of the drafter's.
  int64_t free_memory = 0;   // Bytes. 0: unknown.
};

struct CheckpointReport {
  std::optional<CheckedModel> target, drafter;  // Empty if the check failed or did not run.
  std::vector<Verdict> verdicts;
  std::vector<MemoryNeed> memory;  // One per service whose files were checked.
  std::vector<std::pair<WeightFormat, int64_t>>
      weights_by_format;  // Bytes of the target's weights.
  MeasuredLimits limits;
  std::vector<EstimatedForward> forwards;

  // True if all services accept the checkpoints.
  [[nodiscard]] bool runs() const;
  // Bytes of all services.
  [[nodiscard]] int64_t total_memory() const;
  // False if the machine has less free memory.
  [[nodiscard]] bool fits() const {
    return limits.free_memory == 0 || total_memory() <= limits.free_memory;
  }
};

// Checks the checkpoints. Fills in everything except `limits` and `forwards`.
[[nodiscard]] CheckpointReport CheckCheckpoints(const CheckpointOptions& options);

// Measures the machine, in less than a second.
[[nodiscard]] MeasuredLimits MeasureLimits(const CheckpointOptions& options);
// The least times of forwards of the checked models under report.limits.
[[nodiscard]] std::vector<EstimatedForward> EstimateForwards(const CheckpointReport& report);

// The report as text for a terminal. Text from the checkpoints is escaped.
[[nodiscard]] std::string CheckpointText(const CheckpointReport& report,
                                         const CheckpointOptions& options);
// The same as one JSON object.
[[nodiscard]] std::string CheckpointJson(const CheckpointReport& report,
                                         const CheckpointOptions& options);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_CHECKPOINT_REPORT_H_
