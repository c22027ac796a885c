#include "orchestrator/api/public_status.h"

#include <exception>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

// A message becomes a trailer. gRPC's default limit for all trailers of a call is 8 KiB, and a byte
// may take three after escaping.
constexpr size_t kMaxShownBytes = 1024;
// When clients may retry after an error that says nothing about the rate of the service.
constexpr absl::Duration kRetryDelay = absl::Seconds(1);

// The codes of generation.proto.
bool IsPromised(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

// What a client sees instead of an internal error.
absl::Status Replacement(const absl::Status& status, absl::string_view request_id) {
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server ran out of memory for request ", request_id, "; try again later"));
  }
  return absl::UnavailableError(
      absl::StrCat("the server could not finish request ", request_id, "; try again later"));
}

}  // namespace

absl::Status PublicStatus(const absl::Status& status, absl::string_view request_id) {
  if (status.ok()) return status;
  if (!IsForClient(status) || !IsPromised(status.code())) {
    LOG(ERROR) << "request " << ShortenedToBytes(request_id, kMaxShownBytes)
               << " failed: " << status;
    return WithRequestId(WithRetryDelay(Replacement(status, request_id), kRetryDelay), request_id);
  }
  absl::Status shown(status.code(), ShortenedToBytes(status.message(), kMaxShownBytes));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { shown.SetPayload(url, payload); });
  if (absl::IsUnavailable(shown) && !RetryDelay(shown)) {
    shown = WithRetryDelay(std::move(shown), kRetryDelay);
  }
  return WithRequestId(shown, request_id);
}

absl::Status PublicStatusOf(absl::FunctionRef<absl::Status()> serve, absl::string_view request_id) {
  absl::Status status;
  try {
    status = serve();
  } catch (const std::exception& error) {  // E.g. out of memory.
    status = absl::InternalError(error.what());
  }
  return PublicStatus(status, request_id);
}

}  // namespace bastion
