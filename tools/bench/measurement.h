// Measurements of the requests of a benchmark. Plain data. measurements_json.h describes their
// file.
#ifndef BASTION_TOOLS_BENCH_MEASUREMENT_H_
#define BASTION_TOOLS_BENCH_MEASUREMENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/stages/sampling_params.h"

namespace bastion {

struct Conversation;  // conversation.h

struct BenchPrompt {
  std::string id;
  std::vector<TokenId> tokens;
  std::string dataset = {};  // Empty: the file does not name one.
  // The prompt is the first turn of this conversation. Null: it has no later turns.
  std::shared_ptr<const Conversation> conversation = nullptr;
};

// Seconds of each stage (CycleReport in protos/bastion/v1/generation.proto).
struct StageSeconds {
  double draft = 0, tree = 0, verify_queue = 0, verify = 0, commit = 0, audit = 0, transfer = 0;
};

// The values of a cycle that the report uses.
struct MeasuredCycle {
  int committed_length = 0;
  int nodes = 0;
  int rows = 0;
  double predicted_verify = 0;  // Predicted stages.verify, in seconds.
  StageSeconds stages;
  int accepted = 0;               // Accepted nodes: one at each depth from 1 to `accepted`.
  std::vector<int> offered = {};  // Element d - 1: nodes at depth d. Only with keeps_trees.
  int context = 0;                // Cached tokens before the cycle.
  double expected_length = 1;     // Â of the tree, root included.
  std::string reason = {};        // BudgetReasonName
};

// Tokens that the client of a request received together.
struct Delta {
  double at = 0;  // Seconds since the load began.
  int tokens = 0;
};

// One request.
struct PromptMeasurement {
  std::string id;
  std::vector<TokenId> output;
  std::vector<MeasuredCycle> cycles;
  double seconds = 0;  // From the end of prefill to the end.
  double prefill_seconds = 0;
  int max_new_tokens = 0;
  double arrived = 0;  // Seconds since the load began, like `ended`.
  double ended = 0;
  std::vector<Delta> deltas = {};
};

struct BenchSettings {
  SamplingParams sampling = {};
  int max_new_tokens = 128;
  bool ignore_eos = false;
  // Through services: let requests reuse the prefixes of others. (LocalMemory::reuse_prefixes does
  // so in process.) Off, so that measurements of equal prompts are comparable.
  bool reuse_prefixes = false;
  bool reliability = false;  // Collect LoadRun::reliability. In process only.
  bool keeps_trees = false;  // Collect MeasuredCycle::offered.
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_MEASUREMENT_H_
