#include "bastion/error_details.h"

#include "absl/strings/cord.h"
#include "bastion/grpc_status.h"
#include "bastion/v1/error_details.pb.h"

namespace bastion {
namespace {

// The payload `url` of a status. Unset if it has none that can be parsed.
template <typename Message>
std::optional<Message> PayloadOf(const absl::Status& status, const char* url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  Message message;
  if (!payload || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

}  // namespace

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  if (const auto request = PayloadOf<v1::BadRequest>(status, kBadRequestUrl)) {
    for (const v1::BadRequest::FieldViolation& violation : request->field_violations()) {
      details.field_violations.push_back({violation.field(), violation.description()});
    }
  }
  if (const auto retry = PayloadOf<v1::RetryInfo>(status, kRetryInfoUrl)) {
    details.retry_delay = absl::Seconds(retry->retry_delay().seconds()) +
                          absl::Nanoseconds(retry->retry_delay().nanos());
  }
  if (const auto request = PayloadOf<v1::RequestInfo>(status, kRequestInfoUrl)) {
    details.request_id = request->request_id();
  }
  return details;
}

}  // namespace bastion
