// Sends prompts to a running service and records how they were decoded. Thread-safe: no state.
#ifndef BASTION_TOOLS_DOCTOR_RECORDING_H_
#define BASTION_TOOLS_DOCTOR_RECORDING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bastion/generation_client.h"
#include "tools/doctor/expected_speedup.h"

namespace bastion::doctor {

struct DecodeOptions {
  std::string policy;
  double temperature = 0;
  int max_new_tokens = 128;
  std::string salt;    // Prompts are computed once for each salt.
  bool trees = false;  // Record the draft trees.
};

struct RecordedRequest {
  int prompt_tokens = 0;
  int output_tokens = 0;
  bool waited_for_room = false;  // The server was full.
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double draft_seconds = 0;         // Sum over the cycles.
  std::vector<RecordedTree> trees;  // One per cycle, if requested.
  int table_nodes = 0;              // Nodes of these trees that the transition table proposed.
};

// Sends a request with the prompt of `prompt` and waits for its answer.
[[nodiscard]] absl::StatusOr<RecordedRequest> RunRequest(GenerationClient& client,
                                                         const v1::GenerateRequest& prompt,
                                                         const DecodeOptions& options);

// Sends `requests` requests at once. The prompts repeat if there are fewer. Each request has its
// own salt, which begins with options.salt. Returns all requests, or the first error.
[[nodiscard]] absl::StatusOr<std::vector<RecordedRequest>> RunTogether(
    GenerationClient& client, absl::Span<const v1::GenerateRequest> prompts, int requests,
    const DecodeOptions& options);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_RECORDING_H_
