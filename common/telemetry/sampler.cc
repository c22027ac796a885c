#include "common/telemetry/sampler.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace bastion {

absl::StatusOr<Sampler> Sampler::Parse(const std::string& name, const std::string& argument) {
  Sampler sampler;
  absl::string_view rule = name.empty() ? "parentbased_always_on" : absl::string_view(name);
  sampler.follows_parent_ = absl::ConsumePrefix(&rule, "parentbased_");
  if (rule == "always_on") return sampler;
  if (rule == "always_off") {
    sampler.share_ = 0;
    return sampler;
  }
  if (rule != "traceidratio") {
    return absl::InvalidArgumentError(
        absl::StrCat("OTEL_TRACES_SAMPLER is \"", name,
                     "\"; use always_on, always_off or traceidratio, or one of them after "
                     "parentbased_"));
  }
  if (!argument.empty() && (!absl::SimpleAtod(argument, &sampler.share_) ||
                            !(sampler.share_ >= 0 && sampler.share_ <= 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("OTEL_TRACES_SAMPLER_ARG is \"", argument, "\"; use a number from 0 to 1"));
  }
  return sampler;
}

TraceContext Sampler::Begin(const std::optional<TraceContext>& parent) const {
  if (parent.has_value() && follows_parent_) return NewSpan(*parent);
  TraceContext context = parent.has_value() ? NewSpan(*parent) : NewTrace(/*sampled=*/false);
  // All services that use this rule choose the same traces.
  context.sampled = std::ldexp(static_cast<double>(context.trace_low), -64) < share_;
  return context;
}

}  // namespace bastion
