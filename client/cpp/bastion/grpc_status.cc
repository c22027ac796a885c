#include "bastion/grpc_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "bastion/v1/error_details.pb.h"

namespace bastion {
namespace {

// GCC and Clang mangle Cord's constructor for std::string differently.
absl::Cord ToCord(absl::string_view bytes) { return absl::Cord(bytes); }

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  v1::ErrorStatus details;
  // A proxy may send details of another kind. The code and the message are enough then.
  if (!details.ParseFromString(status.error_details())) return converted;
  for (const google::protobuf::Any& detail : details.details()) {
    converted.SetPayload(detail.type_url(), ToCord(detail.value()));
  }
  return converted;
}

absl::Status EnsureRequestId(absl::Status status, const std::string& request_id) {
  if (status.ok() || status.GetPayload(kRequestInfoUrl)) return status;
  v1::RequestInfo info;
  info.set_request_id(request_id);
  status.SetPayload(kRequestInfoUrl, ToCord(info.SerializeAsString()));
  return status;
}

}  // namespace bastion
