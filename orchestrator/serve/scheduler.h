// Scheduler: owns the cycle's thread. It admits requests in order of arrival, prefills them in
// chunks between cycles, and steps all running sequences together.
//
// It also watches the two peers. While the verifier is unreachable, requests are refused with
// UNAVAILABLE. When it is reachable again, serving resumes; a verifier with a different target or
// device is calibrated first. While the drafter is missing or failing, requests are decoded without
// drafts.
//
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_SCHEDULER_H_
#define BASTION_ORCHESTRATOR_SERVE_SCHEDULER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/speculation_memory.h"
#include "orchestrator/prior/learned_prior.h"
#include "orchestrator/serve/live_request.h"

namespace bastion {

struct SchedulerOptions {
  int max_running = 16;     // Requests decoded together.
  int max_waiting = 256;    // Maximum queue length. Further requests are refused.
  int prefill_chunk = 256;  // Prompt tokens per request between two cycles.
  // A request is dropped if its client does not read for this long while the stream is full.
  absl::Duration slow_client = absl::Seconds(30);
  absl::Duration calibration_limit = absl::Seconds(10);  // CalibrationOptions::time_limit.
  int vocabulary = 0;  // Vocabulary size of the served model. The verifier's must be equal.
  // Transition table for +prior, with the same vocabulary. Not owned. Null: no table.
  const TransitionGains* table = nullptr;
  // Counts shared by all requests. Not owned. Null: requests share no counts.
  LearnedPrior* learned = nullptr;
};

struct SchedulerStats {
  bool ready = false;  // The verifier is connected and calibrated.
  int running = 0;     // Requests being decoded.
  AuditCounts audit;   // The verifier's audit counts.
  int waiting = 0;     // Requests in the queue.
  TargetInfo target;   // Target of the verifier that was connected last.
  // The drafter's name at the time the verifier was last connected; empty if there was no drafter.
  std::string drafter;
};

class Scheduler {
 public:
  // Starts the thread. `verifier` and `drafter` must outlive this object; only its thread calls
  // them. The thread calls `on_ready` whenever SchedulerStats::ready changes, with the new value.
  Scheduler(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
            std::function<void(bool)> on_ready);
  // Fails the requests that are still waiting or running, saves the learned prior, and joins the
  // thread.
  ~Scheduler();

  // Adds a request to the queue. UNAVAILABLE if not ready or after Drain; RESOURCE_EXHAUSTED if the
  // queue is full.
  [[nodiscard]] absl::Status Submit(std::unique_ptr<LiveRequest> request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new requests from now on. Waits up to `grace` for waiting and running requests to end.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

  [[nodiscard]] SchedulerStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The objects that depend on the verifier's target. Created when a verifier is connected.
  struct Engine {
    TargetInfo target;
    CostModel costs;
    SpeculationMemory memory;
    DecodeCycle cycle;

    Engine(const TargetInfo& info, CostModel fitted, const PriorInputs& prior_inputs,
           Drafter* drafter, Verifier* verifier)
        : target(info),
          costs(std::move(fitted)),
          memory(prior_inputs),
          cycle(info, drafter, verifier, &costs) {}
  };

  // The loop of the thread.
  void Main();
  // Tries once to reach the verifier. On failure, pauses and returns false.
  [[nodiscard]] bool Connect();
  // Calibrates the verifier and fits the cost model.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const TargetInfo& target);
  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until there are requests or the scheduler stops, for half a second at most.
  void AwaitWork() ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves requests from the queue to running_, up to max_running.
  void Admit() ABSL_LOCKS_EXCLUDED(mutex_);
  // Prefills one chunk of each request that needs it.
  void Prefill();
  // Runs one cycle over all requests that are ready, and publishes their output.
  void Step();
  // Removes requests that are done, failed, canceled, or stalled for too long.
  void Retire() ABSL_LOCKS_EXCLUDED(mutex_);
  // Fails the request and returns true if its client canceled it or has not read for too long.
  [[nodiscard]] bool FailIfAbandoned(LiveRequest& request) const;
  // Fails all waiting and running requests.
  void FailAll(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const SchedulerOptions options_;
  Verifier* const verifier_;
  Drafter* const drafter_;
  const std::function<void(bool)> on_ready_;

  // Used only by the cycle's thread.
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<LiveRequest>> running_;
  std::optional<absl::Status> last_connect_error_;
  absl::Duration pause_;  // The last pause between two attempts to connect.
  absl::Status last_draft_status_;

  mutable Mutex mutex_;
  std::deque<std::unique_ptr<LiveRequest>> waiting_ ABSL_GUARDED_BY(mutex_);
  SchedulerStats stats_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_SCHEDULER_H_
