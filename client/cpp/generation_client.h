// A client of the public API: one channel, streamed answers, errors as absl::Status. Thread-safe.
#ifndef BASTION_CLIENT_CPP_GENERATION_CLIENT_H_
#define BASTION_CLIENT_CPP_GENERATION_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/bastion/v1/generation.grpc.pb.h"

namespace bastion {

class GenerationClient {
 public:
  // `endpoint`: "host:port" or "unix:///path".
  explicit GenerationClient(const std::string& endpoint);

  // Calls `on_event` for every event in order; it returns false to cancel. Returns the call's
  // status: OK exactly when Finished came. CANCELLED when on_event said so.
  [[nodiscard]] absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<bool(const v1::GenerateResponse&)>& on_event,
      absl::Duration deadline = absl::Minutes(10));

  [[nodiscard]] absl::StatusOr<v1::ListModelsResponse> ListModels();
  [[nodiscard]] absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo();
  // OK when the service says SERVING; UNAVAILABLE with what it says otherwise.
  [[nodiscard]] absl::Status Health();

 private:
  std::string endpoint_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_GENERATION_CLIENT_H_
