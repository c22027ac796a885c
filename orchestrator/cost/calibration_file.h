// The file that keeps a calibration across starts, so that it is measured once per device and
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
#ifndef BASTION_ORCHESTRATOR_COST_CALIBRATION_FILE_H_
#define BASTION_ORCHESTRATOR_COST_CALIBRATION_FILE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/calibration_table.h"

namespace bastion {

// A calibration, and what was calibrated.
struct CalibratedTarget {
  TargetInfo target;
  CalibrationTable calibration;
};

// The calibration of `target` from the file. NOT_FOUND if the file cannot be read; INVALID_ARGUMENT
// if it is damaged; FAILED_PRECONDITION if it belongs to another device or target.
[[nodiscard]] absl::StatusOr<CalibrationTable> ReadCalibration(const std::string& path,
                                                               const TargetInfo& target);
// The content of the file, whatever it belongs to.
[[nodiscard]] absl::StatusOr<CalibratedTarget> ReadCalibrationFile(const std::string& path);

// Writes a new file and renames it over the old one. UNAVAILABLE if that fails.
[[nodiscard]] absl::Status WriteCalibration(const std::string& path,
                                            const CalibratedTarget& calibrated);

// The object above without `calibration_file`. Traces begin with it, too.
[[nodiscard]] nlohmann::json CalibrationJson(const CalibratedTarget& calibrated);
// Throws nlohmann::json::exception. `target` may be missing, and the last element of a point.
[[nodiscard]] CalibratedTarget ParseCalibration(const nlohmann::json& object);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_CALIBRATION_FILE_H_
