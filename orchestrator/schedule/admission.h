// Admission: who gets in, by the free pages of the KV cache (kv_admission.h), and who gets out for
// lack of them.
//
// Requests grow while they decode. When the pages run out, the request with the lowest weight, and
// among those the one that was admitted last, is preempted: it gives back its pages, waits before
// all others, and is prefilled again later. Its text does not change. The request that is highest
// in this order is never preempted while another one runs, so it always makes progress.
// Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_ADMISSION_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_ADMISSION_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "orchestrator/schedule/log_throttle.h"
#include "orchestrator/schedule/request_queue.h"
#include "orchestrator/schedule/running_requests.h"
#include "orchestrator/schedule/scheduler_options.h"
#include "orchestrator/schedule/serving_observer.h"
#include "orchestrator/schedule/verifier_link.h"

namespace bastion {

class Admission {
 public:
  // Opens the request's sequence at the verifier. An error: the verifier is lost.
  using Open = absl::FunctionRef<absl::Status(LiveRequest&)>;

  // The pointers must outlive this object. `observer` may be null.
  Admission(const SchedulerOptions& options, RequestQueue* queue, const VerifierLink* link,
            RunningRequests* running, ServingObserver* observer)
      : options_(options), queue_(*queue), link_(*link), running_(*running), observer_(observer) {}

  // Moves requests from the queue to the running ones while slots and pages last, and opens them.
  // Returns the first error of `open`.
  [[nodiscard]] absl::Status Admit(Open open);
  // After a forward: fails the requests of `served` that the verifier refused for lack of memory in
  // several successive forwards, although it stated enough free pages. Waiting for pages would not
  // help them.
  void FailRefused(const ServedCycle& served);
  // If sequences lacked pages in the last forward, which was for `forward_size` requests, preempts
  // requests until the pages suffice. Returns true if it preempted any. A request that lacked pages
  // although it ran alone fails if it exceeds the KV cache.
  [[nodiscard]] bool Preempt(size_t forward_size);

  // Since the start.
  [[nodiscard]] int64_t preemptions() const { return preemptions_; }

 private:
  // How long a request that is alone waits for pages of another orchestrator. Each try is a call of
  // the verifier.
  static constexpr absl::Duration kShortestStarvedPoll = absl::Milliseconds(1);
  static constexpr absl::Duration kLongestStarvedPoll = absl::Milliseconds(32);

  void LogPressure();
  // Tokens that the request must store in the next forward: the committed ones, and its root or
  // its next prompt rows.
  [[nodiscard]] int64_t TokensAfterNextRows(const LiveRequest& request) const;
  // Pages that the starved sequences lack. Not positive: the free pages suffice.
  [[nodiscard]] int64_t MissingPages() const;
  // The index of the running request to preempt. REQUIRES: a request runs.
  [[nodiscard]] size_t Victim() const;
  void PreemptVictim();
  // Handles a request that lacked pages although no other one ran. It fails if it exceeds the KV
  // cache.
  void HandleStarvedAlone(LiveRequest& request);

  const SchedulerOptions options_;
  RequestQueue& queue_;
  const VerifierLink& link_;
  RunningRequests& running_;
  ServingObserver* const observer_;
  uint64_t admissions_ = 0;
  int64_t preemptions_ = 0;
  // When Admit last left no room for a request.
  absl::Duration full_at_ = -absl::InfiniteDuration();
  absl::Duration starved_poll_ = kShortestStarvedPoll;  // Doubles with each try.
  LogThrottle pressure_log_{kLogInterval};
  LogThrottle preemption_log_{kLogInterval};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_ADMISSION_H_
