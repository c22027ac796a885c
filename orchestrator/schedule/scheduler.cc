#include "orchestrator/schedule/scheduler.h"

#include <utility>

#include "common/base/status.h"
#include "orchestrator/schedule/kv_admission.h"

namespace bastion {

Scheduler::~Scheduler() {
  Interrupt();
  thread_.join();
}

absl::Status Scheduler::SubmitAll(std::vector<std::unique_ptr<LiveRequest>> requests) {
  // Once the queue accepts requests, the target is known.
  RETURN_IF_ERROR(CheckRoom(static_cast<int>(requests.size()) - 1));
  const TargetInfo target = stats().target;
  for (const auto& request : requests) RETURN_IF_ERROR(FitToCapacity(target, *request));
  return loop_.queue().PushAll(std::move(requests));
}

absl::Status Scheduler::Submit(std::unique_ptr<LiveRequest> request) {
  std::vector<std::unique_ptr<LiveRequest>> requests;
  requests.push_back(std::move(request));
  return SubmitAll(std::move(requests));
}

}  // namespace bastion
