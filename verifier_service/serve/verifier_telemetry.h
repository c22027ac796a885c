// VerifierTelemetry: the verifier's metrics and spans. docs/metrics.md and docs/tracing.md list
// them. Thread-safe.
#ifndef BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_TELEMETRY_H_
#define BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_TELEMETRY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/stages/stage_data.h"
#include "common/telemetry/service_telemetry.h"

namespace bastion::verifier {

// A verify call, as the service sees it. Times are on Clock::Real().
struct MeasuredCall {
  std::string traceparent;  // The orchestrator's cycle.
  absl::Duration arrived;   // Before it waits for the engine.
  absl::Duration began;     // When it has the engine.
  size_t trees = 0, prompts = 0;
};

struct EngineState {
  int sequences = 0;
  int free_kv_tokens = 0;
  int kv_tokens = 0;
};

class VerifierTelemetry {
 public:
  // `telemetry` must outlive this object.
  explicit VerifierTelemetry(ServiceTelemetry* telemetry);
  ~VerifierTelemetry();

  void RecordVerify(const MeasuredCall& call, const absl::StatusOr<VerifyResult>& result);
  // A sequence began with `tokens` tokens. The cache had `reused` of them.
  void RecordPrefix(int tokens, int reused);
  // Sets the gauges.
  void Refresh(const EngineState& state);

 private:
  struct Metrics;

  void Count(const absl::StatusOr<VerifyResult>& result, absl::Duration queue);
  void Trace(const MeasuredCall& call, const absl::StatusOr<VerifyResult>& result);

  Timeline& timeline_;
  const std::unique_ptr<Metrics> metrics_;  // Null: no metrics.
  Tracer* const tracer_;                    // Null: no spans.
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_TELEMETRY_H_
