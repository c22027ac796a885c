// ServingLoop: the loop of the cycle's thread. It runs one forward per loop for all admitted
// requests: the trees of those that decode, and prompt rows up to a budget for those that are not
// prefilled yet. So a prompt delays the others by at most one forward of the budget, however long
// it is.
//
// It owns the parts that a loop needs: the queue, the link to the verifier with the decode cycle,
// the running requests, admission.h and verifier_loss.h. The thread of Run() is the cycle's thread;
// clang checks that no other one uses its parts (thread_role.h). Thread-safe, but Run() is called
// once.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_SERVING_LOOP_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_SERVING_LOOP_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/base/thread_role.h"
#include "orchestrator/belief/reliability.h"
#include "orchestrator/cycle/mask_worker.h"
#include "orchestrator/schedule/admission.h"
#include "orchestrator/schedule/cost_inquiries.h"
#include "orchestrator/schedule/request_queue.h"
#include "orchestrator/schedule/running_requests.h"
#include "orchestrator/schedule/scheduler_options.h"
#include "orchestrator/schedule/serving_observer.h"
#include "orchestrator/schedule/verifier_link.h"
#include "orchestrator/schedule/verifier_loss.h"

namespace bastion {

struct SchedulerStats {
  bool ready = false;           // The verifier is connected and profiled.
  int running = 0;              // Admitted requests.
  int waiting = 0;              // Requests in the queue, preempted ones included.
  int parked = 0;               // Requests whose clients do not read.
  int64_t preemptions = 0;      // For lack of memory, since the start.
  int free_kv_tokens = 0;       // Tokens that fit into the free pages of the KV cache.
  AuditCounts audit;            // The verifier's audit counts.
  TargetInfo target;            // Target of the verifier that was connected last.
  bool drafts_succeed = false;  // A drafter is connected, and the last draft succeeded.
  // How reliable the probabilities of verified nodes are. Collected only if the observer wants it.
  ReliabilityTable reliability;
  std::string drafter;  // The drafter's name; empty while there is none.
  FeatureRoute feature_route = FeatureRoute::kNone;  // How features reach it.
};

class ServingLoop {
 public:
  // See Scheduler.
  ServingLoop(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
              std::function<void(bool)> on_ready, ServingObserver* observer);

  // Loops until queue().Interrupt(). Then fails the requests that have not ended, and saves what
  // was learned.
  void Run();

  [[nodiscard]] RequestQueue& queue() { return queue_; }
  [[nodiscard]] const RequestQueue& queue() const { return queue_; }
  [[nodiscard]] SchedulerStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  // See Scheduler::ReadCosts.
  [[nodiscard]] absl::Status ReadCosts(CostInquiries::Read read) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Called when the link is established (OK) or lost.
  void OnLinkChange(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Runs one loop. Returns false when the scheduler stops.
  [[nodiscard]] bool RunLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Runs one loop. An exception, e.g. for lack of memory, is like the loss of the verifier.
  [[nodiscard]] bool RunGuarded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);

  // ---- the steps of a loop ----
  // If nothing runs, waits for a request. False when the scheduler stops.
  [[nodiscard]] bool AwaitWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Admits requests and opens their sequences.
  void Admit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Runs one forward and publishes the output.
  void Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Chooses the requests of the next forward.
  [[nodiscard]] ServedCycle PlanForward() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // True if the request can take part in the next forward: it has no constraint, or its mask is
  // ready. Fails a request whose constraint is too complex. `began` is the CPU time of this thread
  // when it began to prepare masks for this forward.
  [[nodiscard]] bool PrepareMask(LiveRequest& request, absl::Duration began)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Runs the cycle.
  [[nodiscard]] absl::Status RunCycle(const ServedCycle& served)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  // Pushes the output of the cycle, and charges its tokens to the clients.
  void Publish(ServedCycle served) ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  void LogDraftStatus() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);
  void UpdateStats() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cycle_thread_);

  const SchedulerOptions options_;
  const std::function<void(bool)> on_ready_;
  ServingObserver* const observer_;
  RequestQueue queue_;
  CostInquiries cost_inquiries_;

  ThreadRole cycle_thread_;
  MaskWorker mask_worker_ ABSL_GUARDED_BY(cycle_thread_);
  VerifierLink link_ ABSL_GUARDED_BY(cycle_thread_);
  RunningRequests running_ ABSL_GUARDED_BY(cycle_thread_);
  Admission admission_ ABSL_GUARDED_BY(cycle_thread_);
  VerifierLoss loss_ ABSL_GUARDED_BY(cycle_thread_);
  Reliability reliability_ ABSL_GUARDED_BY(cycle_thread_);
  size_t forward_size_ ABSL_GUARDED_BY(cycle_thread_) = 0;  // Requests in the last forward.
  // Whole trees left too few pages to the prompts of the last forward. The next one has only
  // prompts.
  bool prompts_alone_ ABSL_GUARDED_BY(cycle_thread_) = false;
  absl::Status last_draft_status_ ABSL_GUARDED_BY(cycle_thread_);

  mutable Mutex mutex_;
  SchedulerStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_SERVING_LOOP_H_
