// Scheduler: owns the cycle's thread, which runs one forward per loop for all admitted requests:
// the trees of those that decode, and prompt rows up to a budget for those that are not prefilled
// yet. So a prompt delays the others by at most one forward of the budget, however long it is.
//
// Memory: a request is admitted if the pages of the KV cache suffice (kv_admission.h). Requests
// grow while they decode. When the pages run out, the request with the lowest weight, and among
// those the one that was admitted last, is preempted: it gives back its pages, waits before all
// others, and is prefilled again later. Its text does not change. The request that is highest in
// this order is never preempted while another one runs, so it always makes progress.
//
// A request whose client does not read is parked: it gives back slot and pages, and waits again
// when its client has read.
//
// While the verifier is unreachable, new requests are refused with UNAVAILABLE (verifier_link.h).
// Those that were accepted wait. If a verifier with the same target returns in time, they are
// prefilled again with their output, and continue with the same text. A request that ends the
// verifier again and again soon runs alone, and then fails. While the drafter is missing or
// failing, requests are decoded without drafts. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "orchestrator/belief/reliability.h"
#include "orchestrator/cycle/mask_worker.h"
#include "orchestrator/schedule/cost_inquiries.h"
#include "orchestrator/schedule/live_request.h"
#include "orchestrator/schedule/log_throttle.h"
#include "orchestrator/schedule/request_queue.h"
#include "orchestrator/schedule/serving_observer.h"
#include "orchestrator/schedule/verifier_link.h"

namespace bastion {

struct SchedulerOptions {
  int max_running = 16;   // Requests admitted together.
  int max_waiting = 256;  // Maximum queue length. Further requests are refused.
  // Prompt rows per forward, all requests together. 256 rows use the arithmetic of a GPU or CPU
  // fully; more would only lengthen the forward.
  int prefill_rows = 256;
  // A request is parked if its client does not read for this long while the stream is full.
  absl::Duration park_after = absl::Seconds(1);
  // A request is dropped if its client let the full stream wait for this long in total.
  absl::Duration slow_client = absl::Seconds(30);
  // Accepted requests fail if the verifier is lost for this long.
  absl::Duration verifier_patience = absl::Seconds(30);
  VerifierLinkOptions link;
};

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
};

class Scheduler {
 public:
  // Starts the thread. `verifier` and `drafter` must outlive this object; only its thread calls
  // them. The thread calls `on_ready` whenever SchedulerStats::ready changes, with the new value.
  // `observer` is told of cycles. It may be null, and must outlive this object.
  Scheduler(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
            std::function<void(bool)> on_ready, ServingObserver* observer = nullptr);
  // Fails the requests that have not ended, saves what was learned, and joins the thread.
  ~Scheduler();

  // Adds the requests of a call to the queue, all or none. INVALID_ARGUMENT if a prompt exceeds the
  // KV cache; else see RequestQueue::PushAll.
  [[nodiscard]] absl::Status SubmitAll(std::vector<std::unique_ptr<LiveRequest>> requests)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one request.
  [[nodiscard]] absl::Status Submit(std::unique_ptr<LiveRequest> request)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // RequestQueue::CheckSize
  [[nodiscard]] absl::Status CheckSize(int prompts) const { return queue_.CheckSize(prompts); }
  // The error with which Submit would refuse any request now, e.g. because the queue is full.
  // `others` further requests are about to be submitted.
  [[nodiscard]] absl::Status CheckRoom(int others) { return queue_.CheckRoom(others); }
  // Cancels the request of `stream`. It leaves the queue at once, or the running requests after the
  // current forward. No effect on a request that has ended.
  void Cancel(RequestStream& stream) { queue_.Cancel(stream); }

  // Ends the thread after the current loop. The requests that have not ended fail.
  void Interrupt() { queue_.Interrupt(); }

  // Refuses new requests from now on. Waits up to `grace` for all requests to end.
  void Drain(absl::Duration grace) { queue_.Drain(grace); }

  [[nodiscard]] SchedulerStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `read` on the cycle's thread with the target and the current costs, and returns when it
  // has. UNAVAILABLE if no verifier is connected, or if the thread is too busy for seconds.
  [[nodiscard]] absl::Status ReadCosts(CostInquiries::Read read) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Request = std::unique_ptr<LiveRequest>;
  // How long a loop waits if no running request can continue.
  static constexpr absl::Duration kStalledPoll = absl::Milliseconds(1);
  // At most, if its pages belong to another orchestrator. Each try is a call of the verifier.
  static constexpr absl::Duration kLongestStarvedPoll = absl::Milliseconds(32);

  // The loop of the thread.
  void Main();
  // Runs one loop. Returns false when the scheduler stops.
  [[nodiscard]] bool RunLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs one loop. An exception, e.g. for lack of memory, is like the loss of the verifier.
  [[nodiscard]] bool RunGuarded() ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the link is established (OK) or lost.
  void OnLinkChange(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- the steps of a loop ----
  // If nothing runs, waits for a request. False when the scheduler stops.
  [[nodiscard]] bool AwaitWork();
  // Moves parked requests whose clients have read back to the queue.
  void ReturnParked();
  // Moves requests from the queue to running_ while slots and pages last.
  void Admit();
  // Runs one forward and publishes the output.
  void Step();
  // Queues the other answers to the prompts that are now prefilled.
  void QueueOtherAnswers();
  // Removes requests that are done, failed, canceled, or too late.
  void Retire();
  // Parks requests whose clients do not read.
  void Park();
  // If sequences lacked pages, preempts requests until the pages suffice.
  void Preempt();
  void UpdateStats() ABSL_LOCKS_EXCLUDED(mutex_);

  // The request can be part of a forward.
  [[nodiscard]] static bool CanRun(const LiveRequest& request);
  // True if the request can take part in the next forward: it has no constraint, or its mask is
  // ready. Fails a request whose constraint is too complex. `began` is the CPU time of this thread
  // when it began to prepare masks for this forward.
  [[nodiscard]] bool PrepareMask(LiveRequest& request, absl::Duration began);
  // Chooses the requests of the next forward.
  [[nodiscard]] ServedCycle PlanTurn();
  // Runs the cycle.
  [[nodiscard]] absl::Status RunCycle(const ServedCycle& turn);
  void LogPressure();
  void LogDraftStatus();
  // The error of a request that cannot continue: canceled, past its deadline, or read too slowly.
  [[nodiscard]] absl::Status CheckClient(const LiveRequest& request) const;
  // Tokens that the request must store in the next forward: the committed ones, and its root or
  // its next prompt rows.
  [[nodiscard]] int64_t TokensAfterNextRows(const LiveRequest& request) const;
  // Closes the request's sequence and counts its pages as free.
  void ReleasePages(const LiveRequest& request);
  // Closes the sequence so that it can be opened again, and removes the request from running_.
  [[nodiscard]] Request Suspend(size_t index);
  // Pages that the starved sequences lack. Not positive: the free pages suffice.
  [[nodiscard]] int64_t MissingPages() const;
  // Handles a request that lacked pages although no other one ran. It fails if it exceeds the KV
  // cache.
  void HandleStarvedAlone(LiveRequest& request);
  // Fails the requests of `turn` that the verifier refused for lack of memory in several successive
  // turns, although it stated enough free pages. Waiting for pages would not help them.
  void FailRefused(const ServedCycle& turn);
  // The index of the running request to preempt. REQUIRES: a request runs.
  [[nodiscard]] size_t Victim() const;
  // Marks the verifier as lost. All running requests wait for one from now on.
  void LoseVerifier(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records the requests of the call that the verifier is about to get.
  void SetLastCall(const ServedCycle& call);
  // Suspends all running requests. Those of the last call count a loss, and fail after too many.
  void SuspendAll();
  // The request that the next forward must run alone, because the verifier was lost in several of
  // its calls and it may be the cause. Null if there is none.
  [[nodiscard]] const LiveRequest* Suspect() const;
  // Fails all requests if the verifier has been lost for too long.
  void CheckPatience();
  // Fails all requests: waiting, running and parked.
  void FailAll(const absl::Status& status);

  const SchedulerOptions options_;
  Drafter* const drafter_;
  const std::function<void(bool)> on_ready_;
  ServingObserver* const observer_;
  RequestQueue queue_;

  // Used only by the cycle's thread.
  MaskWorker mask_worker_;
  VerifierLink link_;
  std::vector<Request> running_;
  std::vector<Request> parked_;
  Reliability reliability_;
  uint64_t admissions_ = 0;
  int64_t preemptions_ = 0;
  // When Admit last left no room for a request.
  absl::Duration full_at_ = -absl::InfiniteDuration();
  // As of the last reply, plus the sequences closed since. Until the next reply, pages that closed
  // sequences share with others count as free.
  int64_t free_tokens_ = 0;
  std::optional<absl::Duration> lost_at_;       // Since when requests wait for a verifier.
  size_t turn_size_ = 0;                        // Requests in the last forward.
  absl::Duration starved_poll_ = kStalledPoll;  // Doubles with each try.
  // Whole trees left too few pages to the prompts of the last forward. The next one has only
  // prompts.
  bool prompts_alone_ = false;
  absl::Status last_draft_status_;
  LogThrottle pressure_log_{kLogInterval};
  LogThrottle preemption_log_{kLogInterval};
  LogThrottle parking_log_{kLogInterval};

  CostInquiries cost_inquiries_;
  mutable Mutex mutex_;
  SchedulerStats stats_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_H_
