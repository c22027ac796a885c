// Runs a suite: every combination of its grid, and its verify times.
#ifndef BASTION_TOOLS_BENCH_SUITE_RUNNER_H_
#define BASTION_TOOLS_BENCH_SUITE_RUNNER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/suite.h"
#include "tools/bench/suite_sessions.h"
#include "tools/bench/verify_latency.h"

namespace bastion {

// How to run a suite on this machine.
struct SuiteOptions {
  LocalOptions local;                // The models and `memory.max_rows` come from the suite.
  std::string endpoint;              // Empty: in process.
  std::string template_args = "{}";  // See LoadPrompts.
  bool ignore_eos = false;           // Always generate max_new_tokens.
  std::string source_folder;         // Paths of the suite that are not absolute begin here.
};

// What was measured at one temperature, seed, prompt length and limit of new tokens.
struct SuiteRun {
  float temperature = 0;
  uint64_t seed = 0;
  int prompt_tokens = 0;  // 0: prompts keep their length.
  int max_new_tokens = 0;
  std::vector<LevelResults> levels;            // One per concurrency.
  std::map<std::string, int64_t> peak_memory;  // Bytes, by policy.
};

// The datasets of prompts, by id.
using DatasetOf = std::map<std::string, std::string>;

struct SuiteResults {
  Suite suite;  // With the paths of the models on this machine.
  std::string device;
  std::string mode;  // "in process" or the endpoint.
  std::vector<SuiteRun> runs;
  DatasetOf datasets;
  std::vector<std::string> left_out;        // Sentences of LeaveOutAbsentDrafters.
  std::vector<DrafterAccuracy> accuracies;  // Empty unless the suite has a table of them.
  VerifyLatency latency;                    // Empty unless the suite measures it.
  absl::Status texts;  // DATA_LOSS if two policies generated different tokens. See CheckSameTexts.
};

// INVALID_ARGUMENT if the suite needs something that this program or the endpoint does not have.
// Prints progress to stderr.
[[nodiscard]] absl::StatusOr<SuiteResults> RunSuite(Suite suite, const SuiteOptions& options);

// Keeps the first `count` prompts of each dataset. 0: all. Prompts without a dataset get `name`.
[[nodiscard]] std::vector<BenchPrompt> FirstOfEachDataset(std::vector<BenchPrompt> prompts,
                                                          int count, const std::string& name);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_RUNNER_H_
