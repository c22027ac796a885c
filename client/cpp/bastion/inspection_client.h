// InspectionClient: asks a service about itself (inspection.proto). Thread-safe. Every call blocks
// its thread until it ends.
#ifndef BASTION_CLIENT_CPP_BASTION_INSPECTION_CLIENT_H_
#define BASTION_CLIENT_CPP_BASTION_INSPECTION_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bastion/options.h"
#include "bastion/v1/inspection.pb.h"

namespace bastion {

class Connection;

class InspectionClient {
 public:
  // `endpoint` is "host:port" or "unix:///path". The client connects when it is first used.
  explicit InspectionClient(const std::string& endpoint, const ConnectionOptions& options =
                                                             ConnectionOptions::FromEnvironment());

  // What the services did in the last seconds. INVALID_ARGUMENT unless `last` is above zero and at
  // most 60 seconds.
  [[nodiscard]] absl::StatusOr<v1::GetTimelineResponse> GetTimeline(
      absl::Duration last, const RpcOptions& options = {}) const;
  // What cycles of a batch cost. Only an orchestrator answers. INVALID_ARGUMENT for a batch out of
  // range; UNAVAILABLE while no verifier is connected.
  [[nodiscard]] absl::StatusOr<v1::GetCostsResponse> GetCosts(const v1::GetCostsRequest& request,
                                                              const RpcOptions& options = {}) const;

 private:
  std::shared_ptr<const Connection> connection_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_INSPECTION_CLIENT_H_
