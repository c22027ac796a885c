// Prompts for a benchmark: from a file, or synthetic.
#ifndef BASTION_TOOLS_BENCH_PROMPTS_H_
#define BASTION_TOOLS_BENCH_PROMPTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/measurement.h"

namespace bastion {

// Reads JSON lines. Each has an "id", optionally a "dataset", and one of:
//
//   "text": "…"                                     plain text
//   "token_ids": […]
//   "messages": [{"role": "user", "content": "…"}]  a conversation, for the chat template
//   "turns": ["…", "…"]                             what the user says, turn by turn
//
// The tokenizer and the chat template in `target_folder` convert them to tokens. The line's object
// "template_args" holds further variables of the chat template; those in `template_args`, a JSON
// object, are the defaults of all lines. Of several turns, only the first one becomes a prompt;
// WithLaterTurns (later_turns.h) adds the others. Prompts with the same id must be the same. Errors
// name the file and the line.
[[nodiscard]] absl::StatusOr<std::vector<BenchPrompt>> LoadPrompts(
    const std::string& file, const std::string& target_folder,
    const std::string& template_args = "{}");

// Gives every prompt exactly `length` tokens, for measurements at one context length: cuts it to
// its last tokens, or fills it up at the front with the prompts before it, cyclically. REQUIRES:
// `length` >= 1; no prompt is empty.
[[nodiscard]] std::vector<BenchPrompt> Resized(const std::vector<BenchPrompt>& prompts, int length);

// A request of a trace of arrivals.
struct TracedArrival {
  double at_seconds = 0;  // Since the load began.
  BenchPrompt prompt;
  int max_new_tokens = 0;  // 0: the trace does not say.
};

// Reads JSON lines of a trace, sorted by time:
//
//   {"at_seconds": 0.25, "id": "p3", "max_new_tokens": 32}
//   {"at_seconds": 0.4, "text": "…"} or {"at_seconds": 0.4, "token_ids": […]}
//
// A line without "text" and "token_ids" takes the prompt of `prompts` with its id. Prompts with the
// same id must be the same. Errors name the file and the line.
[[nodiscard]] absl::StatusOr<std::vector<TracedArrival>> LoadArrivals(
    const std::string& file, const std::string& target_folder,
    const std::vector<BenchPrompt>& prompts);

// Makes prompts of 2 to 40 tokens that occur in no corpus: random tokens, and repeated phrases of 1
// to 4 random tokens. The same seed gives the same prompts.
[[nodiscard]] std::vector<BenchPrompt> SyntheticPrompts(int count, int vocabulary, uint64_t seed);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_PROMPTS_H_
