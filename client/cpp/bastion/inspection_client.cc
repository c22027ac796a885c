#include "bastion/inspection_client.h"

#include "bastion/connection.h"
#include "bastion/rpc.h"
#include "bastion/v1/inspection.grpc.pb.h"

namespace bastion {
namespace {

constexpr absl::Duration kInspectionTimeout = absl::Seconds(20);

}  // namespace

InspectionClient::InspectionClient(const std::string& endpoint, const ConnectionOptions& options)
    : connection_(std::make_shared<Connection>(endpoint, options)) {}

absl::StatusOr<v1::GetTimelineResponse> InspectionClient::GetTimeline(
    absl::Duration last, const RpcOptions& options) const {
  v1::GetTimelineRequest request;
  const int64_t nanos = absl::ToInt64Nanoseconds(last);
  request.mutable_last()->set_seconds(nanos / 1000000000);
  request.mutable_last()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  const auto stub = v1::InspectionService::NewStub(connection_->channel());
  return CallUnary<v1::GetTimelineResponse>(
      {connection_, options, kInspectionTimeout},
      [&](auto* context, auto* response) { return stub->GetTimeline(context, request, response); });
}

absl::StatusOr<v1::GetCostsResponse> InspectionClient::GetCosts(const v1::GetCostsRequest& request,
                                                                const RpcOptions& options) const {
  const auto stub = v1::InspectionService::NewStub(connection_->channel());
  return CallUnary<v1::GetCostsResponse>(
      {connection_, options, kInspectionTimeout},
      [&](auto* context, auto* response) { return stub->GetCosts(context, request, response); });
}

}  // namespace bastion
