// Errors of calls: what clients may see of them, and their details in the form of google.rpc.
//
// An error is for clients if its message is written for them: it names no address, path or sequence
// of the services. PublicStatus replaces every error without this mark (public_status.h). Inside
// the process, the mark and the details are payloads of the absl::Status. On the wire, the details
// are the trailer grpc-status-details-bin. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_ERROR_DETAILS_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_ERROR_DETAILS_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace bastion {

// ---- errors for clients. REQUIRES, for all: the status is an error ----

// Returns `status`, marked as an error for clients.
[[nodiscard]] absl::Status ForClient(absl::Status status);
[[nodiscard]] bool IsForClient(const absl::Status& status);

// INVALID_ARGUMENT "<field>: <problem>" with a google.rpc.BadRequest, for clients.
[[nodiscard]] absl::Status FieldError(absl::string_view field, absl::string_view problem);

struct FieldProblem {
  std::string field, problem;
};
// The arguments of the FieldError that made `status`; nullopt if it is none.
[[nodiscard]] std::optional<FieldProblem> FieldProblemOf(const absl::Status& status);

// ---- details ----

// Returns `status` with a google.rpc.RetryInfo that asks clients to wait for `delay`. REQUIRES:
// `status` is an error.
[[nodiscard]] absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
// The delay that WithRetryDelay added; nullopt if there is none.
[[nodiscard]] std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// Returns `status` with a google.rpc.RequestInfo. REQUIRES: `status` is an error.
[[nodiscard]] absl::Status WithRequestId(absl::Status status, absl::string_view request_id);

// The gRPC status of `status`, with its details.
[[nodiscard]] grpc::Status ToGrpcWithDetails(const absl::Status& status);

// The longest beginning of `text` with whole characters and at most `max_bytes` bytes, and a sign
// if something is missing.
[[nodiscard]] std::string ShortenedToBytes(absl::string_view text, size_t max_bytes);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_ERROR_DETAILS_H_
