// The stop conditions of a request: their bounds, and what they mean for its answer. All errors are
// for clients (error_details.h). Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_INTAKE_STOP_CONDITIONS_H_
#define BASTION_ORCHESTRATOR_INTAKE_STOP_CONDITIONS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"
#include "common/hub/model_config.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/schedule/prepared_request.h"

namespace bastion {

// FieldError if a list or a string is larger than allowed. `unit` is what is counted.
[[nodiscard]] absl::Status CheckSize(absl::string_view field, size_t size, size_t max,
                                     absl::string_view unit);

// INVALID_ARGUMENT if there are too many conditions, or if one is too long.
[[nodiscard]] absl::Status CheckStopBounds(const v1::StopConditions& stop);

// The stop strings that are special tokens. INVALID_ARGUMENT for one that only contains a special
// token: a special token adds no text to an answer, so it would never match.
[[nodiscard]] absl::StatusOr<SpecialStops> FindSpecialStops(const v1::StopConditions& stop,
                                                            const hub::Tokenizer& tokenizer);

// Sets max_tokens and the stop conditions of `request`, whose prompt is already set.
[[nodiscard]] absl::Status SetLimits(const v1::StopConditions& stop, const hub::ModelConfig& config,
                                     DecodeRequest& request);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_STOP_CONDITIONS_H_
