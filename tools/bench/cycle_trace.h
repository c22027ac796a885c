// CycleTrace: what the cost model saw of one cycle, and what it predicted. A file of traces has a
// header and one JSON line per cycle without prompts:
//
//   {"trace": 1, …}, with the fields of a profile (orchestrator/profile/profile_file.h)
//   {"model", "policy", "level", "sequences", "rows", "experts", "context", "drafts",
//    "first_draft", "committed", "stages": {"draft", "tree", "verify_queue", "verify", "commit",
//    "audit", "transfer"}, "predicted": {"verify", "draft", "cycle",
//    "curve": [[nodes, seconds], …]}}
//
// All times are seconds. Plain data.
#ifndef BASTION_TOOLS_BENCH_CYCLE_TRACE_H_
#define BASTION_TOOLS_BENCH_CYCLE_TRACE_H_

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/profile/profile_file.h"
#include "tools/bench/measurement.h"

namespace bastion {

// What the cost model predicted before the cycle.
struct CyclePrediction {
  double verify = 0;  // The verify stage of this cycle.
  double draft = 0;   // The draft stage of this cycle.
  double cycle = 0;   // The whole cycle.
  // T(n), the cycle without its draft, at some numbers of nodes: 0, 1, 2, 4, …
  std::vector<std::pair<int, double>> curve;
};

struct CycleTrace {
  int model = 0;  // Cycles with the same number were predicted by the same cost model.
  std::string policy;
  std::string level;
  int sequences = 1;
  int rows = 1;              // All sequences together, roots included.
  double experts = 0;        // TimingTrace::experts
  int context = 0;           // Mean cached tokens of a sequence.
  int drafts = 0;            // Sequences that drafted.
  bool first_draft = false;  // A draft also processed a prompt.
  int committed = 0;         // Tokens that the cycle added to all outputs.
  StageSeconds stages;
  CyclePrediction predicted;

  [[nodiscard]] int nodes() const { return rows - sequences; }
};

// What the cost model was fitted to.
using TraceHeader = ProfiledTarget;

struct Trace {
  TraceHeader header;
  std::vector<CycleTrace> cycles;
};

// Reads a file that a TraceRecorder wrote. Errors name the file and the line.
[[nodiscard]] absl::StatusOr<Trace> ReadTrace(const std::string& file);

// Writes traces to a file. Thread-compatible.
class TraceRecorder {
 public:
  // Creates the file, and writes the header. UNAVAILABLE if that fails.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TraceRecorder>> Create(
      const std::string& file, const TraceHeader& header);

  void Write(const CycleTrace& cycle);
  // UNAVAILABLE if a line could not be written. No call may follow.
  [[nodiscard]] absl::Status Close();

 private:
  explicit TraceRecorder(const std::string& file) : file_(file), stream_(file) {}

  const std::string file_;
  std::ofstream stream_;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_CYCLE_TRACE_H_
