// How near the engine is to its machine: what one decode step, verify and draft must read and
// compute, what memory and arithmetic give here, and what is measured.
//
//   bound = max(bytes / read bandwidth, FLOPs / rate of the weights' type)
//
// A share above 100 % says that the caches held a part of the bytes.
#ifndef BASTION_CLIENT_BENCH_ROOFLINE_H_
#define BASTION_CLIENT_BENCH_ROOFLINE_H_

#include <string>
#include <vector>

#include "client/inprocess/local_stages.h"

namespace bastion {

struct MachineLimits {
  double read_bytes_per_second = 0;
  double bf16_flops_per_second = 0;
  double int8_flops_per_second = 0;
  double fp32_flops_per_second = 0;

  [[nodiscard]] double flops_per_second(DType dtype) const;
};

struct ForwardTime {
  std::string name;  // "decode", "verify", "draft".
  int rows = 0;
  int context = 0;  // Cached tokens.
  double bytes = 0;
  double flops = 0;
  double bound_seconds = 0;
  double seconds = 0;  // Median.
};

struct RooflineReport {
  std::string device;
  MachineLimits limits;
  std::vector<ForwardTime> forwards;  // By context; drafts come last.

  [[nodiscard]] std::string Markdown() const;
  [[nodiscard]] std::string Json() const;
};

struct RooflineOptions {
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<int> contexts = {256};
};

// Measures the machine with the threads of `stages`, or takes its GPU's limits, then its models.
// Progress goes to stderr.
[[nodiscard]] absl::StatusOr<RooflineReport> MeasureRoofline(LocalStages& stages,
                                                             const RooflineOptions& options = {});

// Writes OUTDIR/roofline.md and OUTDIR/roofline.json. Errors name the file.
[[nodiscard]] absl::Status WriteRoofline(const RooflineReport& report, const std::string& folder);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_ROOFLINE_H_
