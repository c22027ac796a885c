// The status codes of HTTP for the statuses of calls (generation.proto). Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_API_HTTP_STATUS_H_
#define BASTION_ORCHESTRATOR_API_HTTP_STATUS_H_

#include "absl/status/status.h"

namespace bastion {

// The code for an error that a client sees.
[[nodiscard]] inline int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_HTTP_STATUS_H_
