// InspectionClient: asks a service about itself (inspection.proto). Thread-safe.
#ifndef BASTION_CLIENT_CPP_INSPECTION_CLIENT_H_
#define BASTION_CLIENT_CPP_INSPECTION_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/connection.h"
#include "protos/bastion/v1/inspection.grpc.pb.h"

namespace bastion {

class InspectionClient {
 public:
  // `endpoint` is "host:port" or "unix:///path".
  explicit InspectionClient(const std::string& endpoint, const ConnectionOptions& options =
                                                             ConnectionOptions::FromEnvironment());

  // What the services did in the last seconds. INVALID_ARGUMENT unless `last` is above zero and at
  // most 60 seconds.
  [[nodiscard]] absl::StatusOr<v1::GetTimelineResponse> GetTimeline(absl::Duration last);
  // What cycles of a batch cost. Only an orchestrator answers. INVALID_ARGUMENT for a batch out of
  // range; UNAVAILABLE while no verifier is connected.
  [[nodiscard]] absl::StatusOr<v1::GetCostsResponse> GetCosts(const v1::GetCostsRequest& request);

 private:
  Connection connection_;
  std::unique_ptr<v1::InspectionService::Stub> stub_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_INSPECTION_CLIENT_H_
