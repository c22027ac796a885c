// Details of failed calls. The code and the message of an absl::Status say what went wrong;
// generation.proto lists the codes. Thread-safe: no state.
#ifndef BASTION_CLIENT_CPP_BASTION_ERROR_DETAILS_H_
#define BASTION_CLIENT_CPP_BASTION_ERROR_DETAILS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace bastion {

struct FieldViolation {
  std::string field;        // The path of the field, e.g. "sampling.top_p".
  std::string description;  // What is wrong with it, and what to do.
};

struct ErrorDetails {
  std::vector<FieldViolation> field_violations;  // INVALID_ARGUMENT: the invalid fields.
  // How long the server asks clients to wait before they try again.
  std::optional<absl::Duration> retry_delay;
  std::string request_id;  // The server's log has the cause of the error under this id.
};

// The details of a status that a client of this library has returned. Empty for OK and for other
// statuses.
[[nodiscard]] ErrorDetails DetailsOf(const absl::Status& status);

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_ERROR_DETAILS_H_
