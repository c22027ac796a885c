// Reasoning of models with think tags: where an answer has it, and constraints for the text after
// it. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_INTAKE_REASONING_H_
#define BASTION_ORCHESTRATOR_INTAKE_REASONING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"
#include "common/base/ids.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/schedule/prepared_request.h"

namespace bastion {

inline constexpr absl::string_view kThinkBegin = "<think>";
inline constexpr absl::string_view kThinkEnd = "</think>";

// How the answer to `prompt`, the tokens of a conversation, begins.
[[nodiscard]] ReasoningStart ReasoningStartOf(const ServedModel& model,
                                              const std::vector<TokenId>& prompt);

// The grammar of answers that begin with `start`, and whose text after the reasoning obeys
// `constraint`, a JSON schema or a grammar with schemas.
[[nodiscard]] v1::SchemaGrammar AfterReasoning(const v1::Constraint& constraint,
                                               ReasoningStart start);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_REASONING_H_
