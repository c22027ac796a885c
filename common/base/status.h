// Helpers for absl::Status: RETURN_IF_ERROR, ASSIGN_OR_RETURN and Annotate.
//
// Rule of this project: Status for errors that a client, a peer or a file can cause, CHECK for bugs
// in this code. A message says what was wrong, where, and what to do.
#ifndef BASTION_COMMON_BASE_STATUS_H_
#define BASTION_COMMON_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace bastion {

// Returns `status` with `context` and ": " before its message. An OK status is returned unchanged.
[[nodiscard]] inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(std::string(context), ": ", status.message()));
}

}  // namespace bastion

#define BASTION_CONCAT_INNER(a, b) a##b
#define BASTION_CONCAT(a, b) BASTION_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                      \
  if (absl::Status bastion_status = (expression); bastion_status.ok()) { \
  } else                                                                 \
    return bastion_status

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_IMPL(BASTION_CONCAT(bastion_statusor_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                  \
  if (!temporary.ok()) return temporary.status();                 \
  declaration = *std::move(temporary)

#endif  // BASTION_COMMON_BASE_STATUS_H_
