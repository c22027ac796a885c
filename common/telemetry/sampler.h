// Sampler: decides which traces are recorded, as the environment variables OTEL_TRACES_SAMPLER and
// OTEL_TRACES_SAMPLER_ARG of OpenTelemetry state. Immutable; thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_SAMPLER_H_
#define BASTION_COMMON_TELEMETRY_SAMPLER_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/telemetry/trace_context.h"

namespace bastion {

class Sampler {
 public:
  // Records every trace, unless its parent is not recorded.
  Sampler() = default;
  // `name` is always_on, always_off, traceidratio, or one of them after "parentbased_"; empty: the
  // default, parentbased_always_on. `argument` is the share of traceidratio, 0 to 1; empty: 1.
  // INVALID_ARGUMENT for anything else.
  [[nodiscard]] static absl::StatusOr<Sampler> Parse(const std::string& name,
                                                     const std::string& argument);

  // The context of a new span. It belongs to the trace of `parent` if there is one.
  [[nodiscard]] TraceContext Begin(const std::optional<TraceContext>& parent) const;

 private:
  double share_ = 1;
  bool follows_parent_ = true;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_SAMPLER_H_
