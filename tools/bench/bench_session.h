// BenchSession: what arms run on: both engines in this process, or the services at an endpoint.
// Thread-compatible.
#ifndef BASTION_TOOLS_BENCH_BENCH_SESSION_H_
#define BASTION_TOOLS_BENCH_BENCH_SESSION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/bench/arm.h"
#include "tools/bench/latency_model.h"
#include "tools/bench/load_comparison.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {

// Files of measurements in process. Empty: none.
struct LocalFiles {
  std::string record;                  // Gets a line per cycle.
  std::string acceptance_calibration;  // Read before, written after.
  std::string latency_profile;         // Read if it exists, else written.
  std::string recorded_acceptance;     // Gets an AcceptanceProfile.
};

struct SessionOptions {
  LocalOptions local;     // With an endpoint, not used.
  std::string endpoint;   // Empty: in process.
  LocalFiles files = {};  // With an endpoint, not used.
  int max_live = 1;       // Requests that are live at the same time.
};

class BenchSession {
 public:
  // Loads the models and profiles the verifier, or connects to the services.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BenchSession>> Open(
      const SessionOptions& options);

  // Makes arms. They must not outlive this object.
  [[nodiscard]] const ArmFactory& arms() const { return arms_; }
  [[nodiscard]] const std::string& device() const { return device_; }
  // "in process", perhaps with the drafter's dtype, or the endpoint.
  [[nodiscard]] const std::string& mode() const { return mode_; }
  // Null with an endpoint.
  [[nodiscard]] LocalStages* stages() { return stages_.get(); }
  // What the arms predict verify times from. nullopt with an endpoint.
  [[nodiscard]] const std::optional<LatencyModel>& latency_model() const { return latency_model_; }

  // Writes the files. Call it when all arms are gone.
  [[nodiscard]] absl::Status Close();

 private:
  BenchSession() = default;
  absl::Status OpenLocal(const SessionOptions& options);

  std::unique_ptr<LocalStages> stages_;
  LocalFiles files_;
  std::unique_ptr<TraceRecorder> recorder_;
  std::optional<AcceptanceFiles> acceptance_;
  std::optional<LatencyModel> latency_model_;
  ArmFactory arms_;
  std::string device_, mode_;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_BENCH_SESSION_H_
