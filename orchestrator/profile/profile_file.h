// The file that keeps a profile across starts, so that it is measured once per device and
// target, as the BASTION paper does (section 2.4). A file of another device or target is refused,
// because its times would be wrong.
//
// Format: a JSON object
//
//   {"calibration_file": 1, "target", "device", "max_rows", "dims": {…}, "peaks": {…},
//    "calibration": [[rows, context, seconds, round_trip_seconds, interpolated], …],
//    "sequence_seconds"}
//
// `device` names the processor, the threads, the instruction set and the dtype. Thread-safe: no
// state.
#ifndef BASTION_ORCHESTRATOR_PROFILE_PROFILE_FILE_H_
#define BASTION_ORCHESTRATOR_PROFILE_PROFILE_FILE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/latency_profile.h"

namespace bastion {

// A profile, and what was profiled.
struct ProfiledTarget {
  TargetInfo target;
  LatencyProfile profile;
};

// The profile of `target` from the file. NOT_FOUND if the file cannot be read; INVALID_ARGUMENT
// if it is damaged; FAILED_PRECONDITION if it belongs to another device or target.
[[nodiscard]] absl::StatusOr<LatencyProfile> ReadProfile(const std::string& path,
                                                         const TargetInfo& target);
// The content of the file, whatever it belongs to.
[[nodiscard]] absl::StatusOr<ProfiledTarget> ReadProfileFile(const std::string& path);

// Writes a new file and renames it over the old one. UNAVAILABLE if that fails.
[[nodiscard]] absl::Status WriteProfile(const std::string& path, const ProfiledTarget& profiled);

// The object above without `calibration_file`. Traces begin with it, too.
[[nodiscard]] nlohmann::json ProfileJson(const ProfiledTarget& profiled);
// Throws nlohmann::json::exception. `target` may be missing, and the last element of a point.
[[nodiscard]] ProfiledTarget ParseProfile(const nlohmann::json& object);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROFILE_PROFILE_FILE_H_
