// InspectionService: answers what operators ask a service about itself. The orchestrator adds its
// own answers in a class that derives from it. Thread-safe.
#ifndef BASTION_COMMON_INSPECTION_INSPECTION_SERVICE_H_
#define BASTION_COMMON_INSPECTION_INSPECTION_SERVICE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bastion/v1/inspection.grpc.pb.h"
#include "common/telemetry/timeline.h"
#include "common/wire/security.h"

namespace bastion {

// Another service, whose answer belongs to that of this one.
struct InspectedPeer {
  std::string service;  // "drafter" or "verifier"
  std::string address;  // Its gRPC address.
};

class InspectionService : public v1::InspectionService::Service {
 public:
  // `service` is the name of this service. `timeline` must outlive this object. Callers need
  // Right::kInspect of `security`, which the calls to the peers use as well.
  InspectionService(std::string service, const Timeline* timeline,
                    std::shared_ptr<const wire::Security> security = wire::Security::None(),
                    const std::vector<InspectedPeer>& peers = {});

  grpc::Status GetTimeline(grpc::ServerContext* context, const v1::GetTimelineRequest* request,
                           v1::GetTimelineResponse* response) override;

 protected:
  // OK if the caller may inspect this service.
  [[nodiscard]] absl::Status CheckInspector(const grpc::ServerContext& context) const {
    return security_->Authorize(context, Right::kInspect).status();
  }

 private:
  struct Peer {
    std::string service;
    std::unique_ptr<v1::InspectionService::Stub> stub;
  };

  // The timeline of this service.
  void AddOwn(absl::Duration last, v1::ServiceTimeline* timeline) const;
  // The timeline of a peer, with the offset of its clock, or the error.
  void AddPeer(const Peer& peer, const v1::GetTimelineRequest& request,
               v1::ServiceTimeline* timeline) const;

  const std::string service_;
  const std::string clock_;
  const Timeline& timeline_;
  const std::shared_ptr<const wire::Security> security_;
  std::vector<Peer> peers_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_INSPECTION_INSPECTION_SERVICE_H_
