// OrchestratorInspection: the orchestrator's InspectionService, with the predictions of its cost
// model. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_API_ORCHESTRATOR_INSPECTION_H_
#define BASTION_ORCHESTRATOR_API_ORCHESTRATOR_INSPECTION_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/inspection/inspection_service.h"
#include "orchestrator/schedule/scheduler.h"

namespace bastion {

class OrchestratorInspection final : public InspectionService {
 public:
  // The pointers must outlive this object.
  OrchestratorInspection(Scheduler* scheduler, const Timeline* timeline,
                         std::shared_ptr<const wire::Security> security,
                         const std::vector<InspectedPeer>& peers)
      : InspectionService("orchestrator", timeline, std::move(security), peers),
        scheduler_(scheduler) {}

  grpc::Status GetCosts(grpc::ServerContext* context, const v1::GetCostsRequest* request,
                        v1::GetCostsResponse* response) override;

 private:
  Scheduler* const scheduler_;
};

// Fills `response` with what `costs` predicts. Element counts are cut to what a forward of `target`
// can hold.
void DescribeCosts(const v1::GetCostsRequest& request, const TargetInfo& target,
                   const CostModel& costs, v1::GetCostsResponse* response);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_ORCHESTRATOR_INSPECTION_H_
