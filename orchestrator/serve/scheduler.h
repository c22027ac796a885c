// The scheduler: owns the cycle's thread. Takes requests up in their order of arrival, prefills
// them in chunks between cycles, and steps all live sequences together.
//
// It also minds the two peers. While the verifier is away, requests are refused with UNAVAILABLE;
// when it is back it is calibrated (again only if it is another one) and serving goes on. The
// drafter may come and go: without it every step is a plain one.
//
// Submit, stats and the like may be called from any thread.
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
#include "orchestrator/prior/learned_prior.h"
#include "orchestrator/serve/live_request.h"

namespace bastion {

struct SchedulerOptions {
  int max_running = 16;
  int max_waiting = 256;
  int prefill_chunk = 256;
  absl::Duration slow_client = absl::Seconds(30);  // Until a client that does not read is dropped.
  absl::Duration calibration_limit = absl::Seconds(10);
  int vocabulary = 0;  // The tokenizer's model: the verifier must have the same.
  const TransitionGains* table =
      nullptr;                      // Of this vocabulary; none: +prior has the request alone.
  LearnedPrior* learned = nullptr;  // None: requests teach each other nothing.
};

struct SchedulerStats {
  bool ready = false;
  int running = 0;
  AuditCounts audit;
  int waiting = 0;
  TargetInfo target;
  std::string drafter;  // Empty while there is none.
};

class Scheduler {
 public:
  // `verifier` and `drafter` must outlive it; only its thread calls them. `on_ready` hears of every
  // change between ready and not.
  Scheduler(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
            std::function<void(bool)> on_ready);
  ~Scheduler();

  // UNAVAILABLE while there is no verifier or after Drain; RESOURCE_EXHAUSTED when the queue is
  // full.
  [[nodiscard]] absl::Status Submit(std::unique_ptr<LiveRequest> request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new requests and waits until the live ones are done, or `grace` is over.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

  [[nodiscard]] SchedulerStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What is made once the verifier is there.
  struct Engine {
    TargetInfo target;
    CostModel costs;
    SpeculationMemory memory;
    DecodeCycle cycle;

    Engine(const TargetInfo& info, CostModel fitted, const PriorInputs& sources, Drafter* drafter,
           Verifier* verifier)
        : target(info),
          costs(std::move(fitted)),
          memory(sources),
          cycle(info, drafter, verifier, &costs) {}
  };

  void Main();
  [[nodiscard]] bool Connect();
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const TargetInfo& target);
  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mutex_);
  void AwaitWork() ABSL_LOCKS_EXCLUDED(mutex_);
  void Admit() ABSL_LOCKS_EXCLUDED(mutex_);
  void Prefill();
  void Step();
  // Drops what is done, failed, cancelled or stalled for too long.
  void Retire() ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] bool GaveUpOn(LiveRequest& request) const;
  void FailAll(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const SchedulerOptions options_;
  Verifier* const verifier_;
  Drafter* const drafter_;
  const std::function<void(bool)> on_ready_;

  // The cycle's thread only.
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<LiveRequest>> running_;
  std::optional<absl::Status> last_connect_error_;
  absl::Duration pause_;  // After the last look for a verifier that is away.
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
