// Compares the engines with the limits of the machine. For each kind of forward (decode step,
// verify, draft), reports the bytes read, the FLOPs, the lower bound on the time, and the measured
// time.
//
//   bound = max(bytes / read bandwidth, FLOPs / (FLOP/s in the weights' type))
//
// If the FLOP/s in this type are not measured, the bound is bytes / read bandwidth.
//
// The measured time can be below the bound if the CPU caches hold some of the bytes.
#ifndef BASTION_TOOLS_BENCH_ROOFLINE_H_
#define BASTION_TOOLS_BENCH_ROOFLINE_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/inprocess/local_stages.h"

namespace bastion {

struct MachineLimits {
  double read_bytes_per_second = 0;
  // Rates of products with weights in each format. Reports leave out those that were not measured.
  std::map<WeightFormat, double> flops_per_second = {};

  // 0: not measured.
  [[nodiscard]] double RateOf(WeightFormat format) const {
    const auto found = flops_per_second.find(format);
    return found == flops_per_second.end() ? 0 : found->second;
  }
};

struct ForwardTime {
  std::string name;  // "decode", "verify", "draft".
  int rows = 0;
  int context = 0;  // Cached tokens.
  double bytes = 0;
  double flops = 0;
  double bound_seconds = 0;
  double seconds = 0;  // Median of the measured times.
};

struct RooflineReport {
  std::string device;
  MachineLimits limits;
  std::vector<ForwardTime> forwards;  // Ordered by context; the draft comes last.

  // The measurements of kind "roofline" (measurements_json.h).
  [[nodiscard]] nlohmann::json Json() const;
};

struct RooflineOptions {
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<int> contexts = {256};
};

// Measures the machine with the threads of `stages`, then the models. On a GPU, takes the limits
// that the verifier engine reports instead of measuring them. Prints progress to stderr.
[[nodiscard]] absl::StatusOr<RooflineReport> MeasureRoofline(LocalStages& stages,
                                                             const RooflineOptions& options = {});

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_ROOFLINE_H_
