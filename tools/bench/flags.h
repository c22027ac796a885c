// The flags of bastion-bench, as plain data. Only flags.cc and main.cc read flags.
#ifndef BASTION_TOOLS_BENCH_FLAGS_H_
#define BASTION_TOOLS_BENCH_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/load_plan.h"
#include "tools/bench/measurements_json.h"
#include "tools/bench/roofline.h"
#include "tools/bench/suite_runner.h"

namespace bastion {

enum class BenchMode { kCompare, kRoofline, kRounding, kRejection, kReplay };

// Where the prompts come from.
struct PromptFlags {
  std::string file;
  std::string template_args = "{}";  // See LoadPrompts.
};

struct BenchFlags {
  BenchMode mode = BenchMode::kCompare;
  SessionOptions session;  // Without max_live.
  PromptFlags prompts;
  std::string report;  // Folder. Empty: none.
  std::string replay;  // File. Only with kReplay.
  std::string texts;   // File. Empty: none. Only with kCompare.
  BenchSettings settings;
  LoadOptions load;
  ComparisonOptions comparison;
  LatencyTargets targets;
  RooflineOptions roofline;
  bool texts_may_differ = false;  // Report different texts, but do not fail.
};

// INVALID_ARGUMENT, naming the flag, for a missing or wrong value. `example` is a valid call.
[[nodiscard]] absl::StatusOr<BenchFlags> ReadFlags(const std::string& example);

// The flags of `bastion-bench suite`.
struct SuiteFlags {
  SuiteOptions options;  // Without source_folder.
  SuiteOverrides overrides;
  bool quick = false;  // Apply QuickOverrides before `overrides`.
  std::string report;  // Folder. Empty: none.
  bool texts_may_differ = false;
};

[[nodiscard]] absl::StatusOr<SuiteFlags> ReadSuiteFlags();

// The folder of --report. Empty: none.
[[nodiscard]] std::string ReportFlag();

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_FLAGS_H_
