// PreparedRequest: a request that passed every check of RequestParser. Plain data.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_PREPARED_REQUEST_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_PREPARED_REQUEST_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/telemetry/trace_context.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/text/stop_strings.h"

namespace bastion {

// Stop strings that are special tokens, with their ids.
using SpecialStops = std::vector<std::pair<TokenId, std::string>>;

// How an answer begins, with models that have think tags.
enum class ReasoningStart {
  kNone,      // Without reasoning.
  kMayBegin,  // With a think tag, or without reasoning.
  kHasBegun,  // In the reasoning: the prompt ends with the tag.
};

struct PreparedRequest {
  std::string request_id;  // Empty: the service generates one.
  DecodeRequest decode;    // The scheduler sets its id.
  Policy policy;
  StopStrings stops;
  // decode.stop_tokens has them too.
  SpecialStops special_stops = {};
  // decode.max_tokens is the rest of the context, because the client set none.
  bool default_max_tokens = false;
  int answers = 1;                                   // Answers to this prompt.
  ReasoningStart reasoning = ReasoningStart::kNone;  // How its answers begin.
  // The caller's proved name, or else its metadata client-id. Clients share the empty one.
  std::string client = {};

  // ---- set by the service, from the call ----
  absl::Duration deadline = absl::InfiniteDuration();  // On the clock of the LiveRequest.
  TraceContext trace = {};  // The request's span. Not valid: the request is not traced.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_PREPARED_REQUEST_H_
