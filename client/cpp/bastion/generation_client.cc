#include "bastion/generation_client.h"

#include <google/protobuf/empty.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "bastion/connection.h"
#include "bastion/rpc.h"
#include "bastion/v1/generation.grpc.pb.h"

namespace bastion {
namespace {

constexpr absl::Duration kShortTimeout = absl::Seconds(5);

// The messages of grpc.health.v1 for the whole server, by their form on the wire: the request has
// no field, and the first field of the response is the status. The library does not contain
// messages of that name, because a process may define them once only.
using HealthStub =
    grpc::TemplatedGenericStub<google::protobuf::Empty, google::protobuf::Int32Value>;
constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
constexpr int kServing = 1, kNotServing = 2;

grpc::Status AskHealth(HealthStub stub, grpc::ClientContext* context,
                       google::protobuf::Int32Value* response) {
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(context, kHealthMethod, {}, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(response, &status, nullptr);
  void* tag;
  bool ok;
  (void)queue.Next(&tag, &ok);
  return status;
}

}  // namespace

GenerationClient::GenerationClient(const std::string& endpoint, const ConnectionOptions& options)
    : connection_(std::make_shared<Connection>(endpoint, options)) {}

AnswerStream GenerationClient::StreamAnswer(const v1::GenerateRequest& request,
                                            const RpcOptions& options) const {
  return {connection_, request, options};
}

absl::Status GenerationClient::Generate(
    const v1::GenerateRequest& request,
    absl::FunctionRef<bool(const v1::GenerateResponse&)> on_event,
    const RpcOptions& options) const {
  AnswerStream stream = StreamAnswer(request, options);
  while (const v1::GenerateResponse* const event = stream.Next()) {
    if (!on_event(*event)) {
      stream.Cancel();
      break;
    }
  }
  while (stream.Next() != nullptr) {
  }
  return stream.status();
}

absl::StatusOr<v1::ListModelsResponse> GenerationClient::ListModels(
    const RpcOptions& options) const {
  const auto stub = v1::GenerationService::NewStub(connection_->channel());
  return CallUnary<v1::ListModelsResponse>(
      {connection_, options, kShortTimeout},
      [&](auto* context, auto* response) { return stub->ListModels(context, {}, response); });
}

absl::StatusOr<v1::GetServerInfoResponse> GenerationClient::GetServerInfo(
    const RpcOptions& options) const {
  const auto stub = v1::GenerationService::NewStub(connection_->channel());
  return CallUnary<v1::GetServerInfoResponse>(
      {connection_, options, kShortTimeout},
      [&](auto* context, auto* response) { return stub->GetServerInfo(context, {}, response); });
}

absl::Status GenerationClient::CheckHealth(const RpcOptions& options) const {
  RpcOptions once = options;
  once.retry.max_attempts = 1;
  const absl::StatusOr<google::protobuf::Int32Value> health =
      CallUnary<google::protobuf::Int32Value>(
          {connection_, once, kShortTimeout}, [&](auto* context, auto* response) {
            return AskHealth(HealthStub(connection_->channel()), context, response);
          });
  if (!health.ok()) return health.status();
  if (health->value() == kServing) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      connection_->endpoint(), " is ", health->value() == kNotServing ? "NOT_SERVING" : "UNKNOWN"));
}

}  // namespace bastion
