// PublicStatus: the border at which errors leave the service. Clients see only the statuses that
// generation.proto promises.
//
// Errors that are not for clients (error_details.h) come from the verifier, the drafter or a bug.
// Their messages name addresses, paths and sequences, and their codes mean something else inside
// than they would mean to a client. Clients get a general message and the id of the request, with
// which an operator finds the error in the log.
//
// An UNAVAILABLE error says after how long the client may try again, if it did not yet (RetryInfo).
// Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_API_PUBLIC_STATUS_H_
#define BASTION_ORCHESTRATOR_API_PUBLIC_STATUS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bastion {

// The status that the client of request `request_id` sees. Logs what the client does not see. OK
// stays OK.
[[nodiscard]] absl::Status PublicStatus(const absl::Status& status, absl::string_view request_id);
// The same for the status that `serve` returns. An exception counts as an internal error.
[[nodiscard]] absl::Status PublicStatusOf(absl::FunctionRef<absl::Status()> serve,
                                          absl::string_view request_id);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_PUBLIC_STATUS_H_
