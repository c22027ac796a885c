// GenerationClient: a client of the public API over one channel. It streams answers and returns
// errors as absl::Status. Thread-safe.
#ifndef BASTION_CLIENT_CPP_GENERATION_CLIENT_H_
#define BASTION_CLIENT_CPP_GENERATION_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/connection.h"
#include "protos/bastion/v1/generation.grpc.pb.h"

namespace bastion {

class GenerationClient {
 public:
  // `endpoint` is "host:port" or "unix:///path".
  explicit GenerationClient(const std::string& endpoint, const ConnectionOptions& options =
                                                             ConnectionOptions::FromEnvironment());

  // Calls `on_event` for every event, in order. `on_event` returns false to cancel the call.
  // Returns OK if the answer ended with Finished, CANCELLED if on_event returned false, else the
  // error of the call.
  [[nodiscard]] absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<bool(const v1::GenerateResponse&)>& on_event,
      absl::Duration timeout = absl::Minutes(10));

  [[nodiscard]] absl::StatusOr<v1::ListModelsResponse> ListModels();
  [[nodiscard]] absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo();
  // OK if the health status of the service is SERVING. UNAVAILABLE otherwise; the message contains
  // the status.
  [[nodiscard]] absl::Status CheckHealth();

 private:
  std::string endpoint_;
  Connection connection_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_GENERATION_CLIENT_H_
