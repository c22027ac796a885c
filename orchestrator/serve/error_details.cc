#include "orchestrator/serve/error_details.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "common/wire/protocol.h"
#include "protos/bastion/v1/error_details.pb.h"

namespace bastion {
namespace {

constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  v1::RetryInfo info;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  info.mutable_retry_delay()->set_seconds(nanos / 1000000000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  const std::string bytes = info.SerializeAsString();
  // GCC and Clang mangle Cord's constructor for std::string differently.
  status.SetPayload(kRetryInfoUrl, absl::Cord(absl::string_view(bytes)));
  return status;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfoUrl);
  v1::RetryInfo info;
  if (!payload || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return absl::Seconds(info.retry_delay().seconds()) +
         absl::Nanoseconds(info.retry_delay().nanos());
}

grpc::Status ToGrpcWithDetails(const absl::Status& status) {
  grpc::Status plain = wire::ToGrpc(status);
  v1::ErrorStatus details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    google::protobuf::Any& detail = *details.add_details();
    detail.set_type_url(std::string(url));
    detail.set_value(std::string(payload));
  });
  if (details.details().empty()) return plain;
  details.set_code(plain.error_code());
  details.set_message(plain.error_message());
  return {plain.error_code(), plain.error_message(), details.SerializeAsString()};
}

}  // namespace bastion
