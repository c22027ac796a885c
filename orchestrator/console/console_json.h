// The JSON of the console: what its page polls, and the prompts that it sends. docs/console.md
// describes it. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_JSON_H_
#define BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bastion/v1/generation.pb.h"
#include "common/hub/detokenizer.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/console/console_feed.h"
#include "orchestrator/schedule/request_stream.h"
#include "orchestrator/schedule/scheduler.h"

namespace bastion {

// What does not change while the service runs.
struct ConsoleIdentity {
  std::string run;  // A random name of this run of the service.
  std::string model, policy;
  bool has_chat = false;  // The model answers chats.
  // For the text of tokens in trees. Null: trees have no text.
  const hub::Tokenizer* tree_tokenizer = nullptr;
};

// The response to a poll.
[[nodiscard]] std::string ConsoleStateJson(const ConsoleIdentity& identity,
                                           const ConsoleSnapshot& snapshot,
                                           const SchedulerStats& stats);

// The request in the body of a POST. INVALID_ARGUMENT, with the name of the field, unless it is a
// JSON object of known fields of the right types. RequestParser checks their values.
[[nodiscard]] absl::StatusOr<v1::GenerateRequest> ParseConsolePrompt(const std::string& body);

// ---- the lines of an answer ----
[[nodiscard]] std::string ConsoleStartedLine(const PreparedRequest& request);
// A line for each cycle of `delta`, and one for the end of the answer, if it has ended.
// `detokenizer` has received the tokens before.
[[nodiscard]] std::string ConsoleCycleLines(const OutputDelta& delta,
                                            hub::Detokenizer* detokenizer);
[[nodiscard]] std::string ConsoleErrorLine(const absl::Status& status);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_JSON_H_
