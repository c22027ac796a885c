// The flags of bastion-bench, as plain data. Only flags.cc and main.cc read flags.
#ifndef BASTION_CLIENT_BENCH_FLAGS_H_
#define BASTION_CLIENT_BENCH_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/bench/load_comparison.h"
#include "client/bench/load_plan.h"
#include "client/bench/roofline.h"
#include "client/inprocess/local_stages.h"

namespace bastion {

enum class BenchMode { kCompare, kRoofline, kRounding, kReplay };

// Files of measurements in process. Empty: none.
struct LocalFiles {
  std::string record;                  // Gets a line per cycle.
  std::string acceptance_calibration;  // Read before, written after.
};

struct BenchFlags {
  BenchMode mode = BenchMode::kCompare;
  LocalOptions local;
  std::string endpoint;  // Empty: in process.
  std::string prompts;   // File.
  std::string report;    // Folder. Empty: none.
  std::string replay;    // File. Only with kReplay.
  LocalFiles files;
  BenchSettings settings;
  LoadOptions load;
  ComparisonOptions comparison;
  LatencyTargets targets;
  RooflineOptions roofline;
};

// INVALID_ARGUMENT, naming the flag, for a missing or wrong value. `example` is a valid call.
[[nodiscard]] absl::StatusOr<BenchFlags> ReadFlags(const std::string& example);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_FLAGS_H_
