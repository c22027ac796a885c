// Ids of requests, which clients may state. Logs, traces and errors have them. Thread-safe: no
// state.
#ifndef BASTION_ORCHESTRATOR_INTAKE_REQUEST_ID_H_
#define BASTION_ORCHESTRATOR_INTAKE_REQUEST_ID_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bastion {

// INVALID_ARGUMENT, for clients, if an id is too long, or would damage a log or a trace.
[[nodiscard]] absl::Status CheckRequestId(absl::string_view id);
// `stated`, or a new id if it is empty or not valid.
[[nodiscard]] std::string RequestIdOrNew(const std::string& stated);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_REQUEST_ID_H_
