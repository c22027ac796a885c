// The latency model of the BASTION paper on this device (figure 9a). Plain data; thread-safe: no
// other state.
#ifndef BASTION_TOOLS_BENCH_LATENCY_MODEL_H_
#define BASTION_TOOLS_BENCH_LATENCY_MODEL_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/cost/paper_fit.h"
#include "orchestrator/profile/profile_file.h"

namespace bastion {

struct LatencyModel {
  ProfiledTarget profiled;
  std::vector<double> roofline_seconds;  // R(s, c) at each point of the profile.
  PaperFit fit;
};

// INVALID_ARGUMENT if the paper's models cannot be fitted to the profile.
[[nodiscard]] absl::StatusOr<LatencyModel> DescribeLatencyModel(const ProfiledTarget& profiled);

// The field `latency_model` of measurements.json and results.json.
[[nodiscard]] nlohmann::json LatencyModelJson(const LatencyModel& model);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LATENCY_MODEL_H_
