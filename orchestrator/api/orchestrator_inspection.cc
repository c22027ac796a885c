#include "orchestrator/api/orchestrator_inspection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/wire/protocol.h"
#include "orchestrator/cost/roofline.h"

namespace bastion {
namespace {

constexpr uint32_t kMaxRequests = 1024;
constexpr uint32_t kMaxNodes = 4096;

absl::Status CheckAtMost(const char* field, uint32_t value, uint32_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is more than the maximum of ", limit));
}

absl::Status Check(const v1::GetCostsRequest& request) {
  absl::Status status = CheckAtMost("requests", request.requests(), kMaxRequests);
  status.Update(CheckAtMost("max_nodes", request.max_nodes(), kMaxNodes));
  status.Update(CheckAtMost("context", request.context(), 1 << 24));
  return status;
}

void DescribeTarget(const TargetInfo& target, v1::TargetLimits* limits) {
  limits->set_model(target.model);
  limits->set_device(target.device);
  limits->set_bytes_per_second(target.peaks.bytes_per_second);
  limits->set_flops_per_second(target.peaks.flops_per_second);
  limits->set_max_context(target.max_context);
  limits->set_max_rows(target.max_rows);
  limits->set_kv_tokens(target.kv_tokens);
}

}  // namespace

void DescribeCosts(const v1::GetCostsRequest& request, const TargetInfo& target,
                   const CostModel& costs, v1::GetCostsResponse* response) {
  VerifySize size;
  size.sequences = std::clamp(static_cast<int>(request.requests()), 1, target.max_rows);
  size.rows = size.sequences;
  size.context = static_cast<int>(request.context());
  const int nodes = std::min(static_cast<int>(request.max_nodes()), target.max_rows - size.rows);
  const BatchCost cost = costs.CostOf(size, nodes, size.sequences);
  DescribeTarget(target, response->mutable_target());
  response->mutable_cycle_seconds()->Add(cost.verify.begin(), cost.verify.end());
  response->mutable_cycle_after_draft_seconds()->Add(cost.verify_after_draft.begin(),
                                                     cost.verify_after_draft.end());
  response->mutable_draft_seconds()->Add(cost.draft.begin(), cost.draft.end());
  response->set_planning_seconds(cost.planning_seconds);
  const auto roofline = Roofline::Make(target.dims, target.peaks);
  if (roofline.ok()) {
    response->mutable_target()->set_forward_bytes(static_cast<uint64_t>(roofline->Bytes(1, 0)));
  }
  for (int n = 0; n <= nodes; ++n, ++size.rows) {
    response->add_forward_seconds(
        absl::ToDoubleSeconds(costs.PredictVerify(size, /*drafted=*/false)));
    response->add_roofline_seconds(roofline.ok() ? roofline->Seconds(size.rows, size.context) : 0);
  }
}

grpc::Status OrchestratorInspection::GetCosts(grpc::ServerContext* context,
                                              const v1::GetCostsRequest* request,
                                              v1::GetCostsResponse* response) {
  if (const absl::Status allowed = CheckInspector(*context); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  if (const absl::Status status = Check(*request); !status.ok()) return wire::ToGrpc(status);
  // The thread may answer after this call has given up, so it must not write to `response`.
  const auto costs = std::make_shared<v1::GetCostsResponse>();
  const absl::Status read = scheduler_->ReadCosts(
      [costs, request = *request](const TargetInfo& target, const CostModel& model) {
        DescribeCosts(request, target, model, costs.get());
      });
  if (read.ok()) response->Swap(costs.get());
  return wire::ToGrpc(read);
}

}  // namespace bastion
