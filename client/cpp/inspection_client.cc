#include "client/cpp/inspection_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(20);

absl::Status ToStatus(const grpc::Status& status, const char* what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat("no ", what, ": ", status.error_message()));
}

}  // namespace

InspectionClient::InspectionClient(const std::string& endpoint, const ConnectionOptions& options)
    : connection_(endpoint, options),
      stub_(v1::InspectionService::NewStub(connection_.channel())) {}

absl::StatusOr<v1::GetTimelineResponse> InspectionClient::GetTimeline(absl::Duration last) {
  v1::GetTimelineRequest request;
  const int64_t nanos = absl::ToInt64Nanoseconds(last);
  request.mutable_last()->set_seconds(nanos / 1000000000);
  request.mutable_last()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  grpc::ClientContext context;
  if (absl::Status ready = connection_.Prepare(kTimeout, context); !ready.ok()) return ready;
  v1::GetTimelineResponse response;
  absl::Status status = ToStatus(stub_->GetTimeline(&context, request, &response), "timeline");
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::GetCostsResponse> InspectionClient::GetCosts(
    const v1::GetCostsRequest& request) {
  grpc::ClientContext context;
  if (absl::Status ready = connection_.Prepare(kTimeout, context); !ready.ok()) return ready;
  v1::GetCostsResponse response;
  absl::Status status = ToStatus(stub_->GetCosts(&context, request, &response), "costs");
  if (!status.ok()) return status;
  return response;
}

}  // namespace bastion
