// VerifierLoss: what happens to running requests when the verifier is lost. They wait for one with
// the same target. If it returns in time, they are prefilled again with their output, and continue
// with the same text; else they fail. A request in whose calls the verifier is lost again and again
// soon runs alone, and then fails. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_VERIFIER_LOSS_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_VERIFIER_LOSS_H_

#include <optional>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "orchestrator/schedule/live_request.h"
#include "orchestrator/schedule/running_requests.h"
#include "orchestrator/schedule/serving_observer.h"
#include "orchestrator/schedule/verifier_link.h"

namespace bastion {

class VerifierLoss {
 public:
  // Accepted requests fail if the verifier is lost for `patience`. The pointers must outlive this
  // object.
  VerifierLoss(absl::Duration patience, VerifierLink* link, RunningRequests* running,
               const Clock* clock = &Clock::Real())
      : patience_(patience), link_(*link), running_(*running), clock_(*clock) {}

  // Records the requests of the call that the verifier is about to get.
  void SetLastCall(const ServedCycle& call);
  // The request that the next forward must run alone, because the verifier was lost in several of
  // its calls and it may be the cause. Null if there is none.
  [[nodiscard]] const LiveRequest* Suspect() const;
  // Marks the verifier as lost, and suspends all running requests. REQUIRES: link->connected().
  void Lose(const absl::Status& reason);
  // The requests wait in the queue again. Those of the last call count a loss, and fail after too
  // many.
  void SuspendAll();
  // Fails all requests if they have waited for a verifier for too long.
  void CheckPatience();
  // No request waits for a verifier any more.
  void EndWait() { lost_at_.reset(); }

 private:
  const absl::Duration patience_;
  VerifierLink& link_;
  RunningRequests& running_;
  const Clock& clock_;
  std::optional<absl::Duration> lost_at_;  // Since when requests wait for a verifier.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_VERIFIER_LOSS_H_
