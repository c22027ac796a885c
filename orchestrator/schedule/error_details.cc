#include "orchestrator/schedule/error_details.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bastion/v1/error_details.pb.h"
#include "common/wire/protocol.h"

namespace bastion {
namespace {

constexpr char kGooglePrefix[] = "type.googleapis.com/";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr char kRequestInfoUrl[] = "type.googleapis.com/google.rpc.RequestInfo";
constexpr char kForClientUrl[] = "bastion/for-client";  // Stays inside the process.

absl::Status WithDetail(absl::Status status, absl::string_view url,
                        const google::protobuf::Message& detail) {
  const std::string bytes = detail.SerializeAsString();
  // GCC and Clang mangle Cord's constructor for std::string differently.
  status.SetPayload(url, absl::Cord(absl::string_view(bytes)));
  return status;
}

}  // namespace

absl::Status ForClient(absl::Status status) {
  status.SetPayload(kForClientUrl, absl::Cord());
  return status;
}

bool IsForClient(const absl::Status& status) {
  return status.GetPayload(kForClientUrl).has_value();
}

absl::Status FieldError(absl::string_view field, absl::string_view problem) {
  v1::BadRequest request;
  v1::BadRequest::FieldViolation& violation = *request.add_field_violations();
  violation.set_field(std::string(field));
  violation.set_description(std::string(problem));
  const absl::Status error = absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
  return ForClient(WithDetail(error, kBadRequestUrl, request));
}

std::optional<FieldProblem> FieldProblemOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kBadRequestUrl);
  v1::BadRequest request;
  if (!payload || !request.ParseFromString(std::string(*payload)) ||
      request.field_violations().empty()) {
    return std::nullopt;
  }
  const v1::BadRequest::FieldViolation& violation = request.field_violations(0);
  return FieldProblem{violation.field(), violation.description()};
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  v1::RetryInfo info;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  info.mutable_retry_delay()->set_seconds(nanos / 1000000000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return WithDetail(std::move(status), kRetryInfoUrl, info);
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfoUrl);
  v1::RetryInfo info;
  if (!payload || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return absl::Seconds(info.retry_delay().seconds()) +
         absl::Nanoseconds(info.retry_delay().nanos());
}

absl::Status WithRequestId(absl::Status status, absl::string_view request_id) {
  v1::RequestInfo info;
  info.set_request_id(std::string(request_id));
  return WithDetail(std::move(status), kRequestInfoUrl, info);
}

grpc::Status ToGrpcWithDetails(const absl::Status& status) {
  grpc::Status plain = wire::ToGrpc(status);
  v1::ErrorStatus details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (!absl::StartsWith(url, kGooglePrefix)) return;
    google::protobuf::Any& detail = *details.add_details();
    detail.set_type_url(std::string(url));
    detail.set_value(std::string(payload));
  });
  if (details.details().empty()) return plain;
  details.set_code(plain.error_code());
  details.set_message(plain.error_message());
  return {plain.error_code(), plain.error_message(), details.SerializeAsString()};
}

std::string ShortenedToBytes(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "…");
}

}  // namespace bastion
