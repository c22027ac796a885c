// GenerationClient: a client of an orchestrator. It streams answers and returns errors as
// absl::Status (error_details.h).
//
// Thread-safe; copies share the connection. Every call blocks its thread until it ends, so calls at
// the same time need a thread each.
#ifndef BASTION_CLIENT_CPP_BASTION_GENERATION_CLIENT_H_
#define BASTION_CLIENT_CPP_BASTION_GENERATION_CLIENT_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bastion/answer_stream.h"
#include "bastion/options.h"
#include "bastion/v1/generation.pb.h"

namespace bastion {

class Connection;

class GenerationClient {
 public:
  // `endpoint` is "host:port" or "unix:///path". The client connects when it is first used.
  explicit GenerationClient(const std::string& endpoint, const ConnectionOptions& options =
                                                             ConnectionOptions::FromEnvironment());

  // The events of the answers to `request`. If the request has no id, the client adds one.
  [[nodiscard]] AnswerStream StreamAnswer(const v1::GenerateRequest& request,
                                          const RpcOptions& options = {}) const;

  // The same with a callback: calls `on_event` for every event, in order, until it returns false,
  // which cancels the call. Returns how the stream ended (AnswerStream::status).
  [[nodiscard]] absl::Status Generate(const v1::GenerateRequest& request,
                                      absl::FunctionRef<bool(const v1::GenerateResponse&)> on_event,
                                      const RpcOptions& options = {}) const;

  [[nodiscard]] absl::StatusOr<v1::ListModelsResponse> ListModels(
      const RpcOptions& options = {}) const;
  [[nodiscard]] absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const RpcOptions& options = {}) const;
  // OK if the health status of the service is SERVING. UNAVAILABLE otherwise; the message contains
  // the status. Never tries again.
  [[nodiscard]] absl::Status CheckHealth(const RpcOptions& options = {}) const;

 private:
  std::shared_ptr<const Connection> connection_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_GENERATION_CLIENT_H_
