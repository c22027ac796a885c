#include "client/cpp/generation_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace bastion {
namespace {

constexpr absl::Duration kShortTimeout = absl::Seconds(5);

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

}  // namespace

GenerationClient::GenerationClient(const std::string& endpoint, const ConnectionOptions& options)
    : endpoint_(endpoint),
      connection_(endpoint, options),
      stub_(v1::GenerationService::NewStub(connection_.channel())) {}

absl::Status GenerationClient::Generate(
    const v1::GenerateRequest& request,
    const std::function<bool(const v1::GenerateResponse&)>& on_event, absl::Duration timeout) {
  grpc::ClientContext context;
  if (absl::Status ready = connection_.Prepare(timeout, context); !ready.ok()) return ready;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse event;
  while (reader->Read(&event)) {
    if (!on_event(event)) {
      context.TryCancel();
      break;
    }
  }
  return ToAbsl(reader->Finish());
}

absl::StatusOr<v1::ListModelsResponse> GenerationClient::ListModels() {
  grpc::ClientContext context;
  if (absl::Status ready = connection_.Prepare(kShortTimeout, context); !ready.ok()) return ready;
  v1::ListModelsResponse response;
  const grpc::Status status = stub_->ListModels(&context, {}, &response);
  if (!status.ok()) return ToAbsl(status);
  return response;
}

absl::StatusOr<v1::GetServerInfoResponse> GenerationClient::GetServerInfo() {
  grpc::ClientContext context;
  if (absl::Status ready = connection_.Prepare(kShortTimeout, context); !ready.ok()) return ready;
  v1::GetServerInfoResponse response;
  const grpc::Status status = stub_->GetServerInfo(&context, {}, &response);
  if (!status.ok()) return ToAbsl(status);
  return response;
}

absl::Status GenerationClient::CheckHealth() {
  grpc::ClientContext context;
  if (absl::Status ready = connection_.Prepare(kShortTimeout, context); !ready.ok()) return ready;
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      grpc::health::v1::Health::NewStub(connection_.channel())->Check(&context, {}, &response);
  if (!status.ok()) return ToAbsl(status);
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(endpoint_, " is ",
                   grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())));
}

}  // namespace bastion
