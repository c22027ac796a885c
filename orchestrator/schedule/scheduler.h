// Scheduler: takes requests and runs them on the cycle's thread, which it owns.
//
// This is what the rest of the service sees. Behind it, the queue orders the waiting requests
// (request_queue.h), the loop runs forwards (serving_loop.h), admission gives requests slots and
// pages and takes them back (admission.h), and running requests leave when they end or their
// clients do not read (running_requests.h).
//
// While the verifier is unreachable, new requests are refused with UNAVAILABLE (verifier_link.h).
// Those that were accepted wait for it (verifier_loss.h). While the drafter is missing or failing,
// requests are decoded without drafts. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/schedule/live_request.h"
#include "orchestrator/schedule/scheduler_options.h"
#include "orchestrator/schedule/serving_loop.h"

namespace bastion {

class Scheduler {
 public:
  // Starts the thread. `verifier` and `drafter` must outlive this object; only its thread calls
  // them. The thread calls `on_ready` whenever SchedulerStats::ready changes, with the new value.
  // `observer` is told of cycles. It may be null, and must outlive this object.
  Scheduler(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
            std::function<void(bool)> on_ready, ServingObserver* observer = nullptr)
      : loop_(options, verifier, drafter, std::move(on_ready), observer),
        thread_([this] { loop_.Run(); }) {}
  // Fails the requests that have not ended, saves what was learned, and joins the thread.
  ~Scheduler();

  // Adds the requests of a call to the queue, all or none. INVALID_ARGUMENT if a prompt exceeds the
  // KV cache; else see RequestQueue::PushAll.
  [[nodiscard]] absl::Status SubmitAll(std::vector<std::unique_ptr<LiveRequest>> requests);
  // The same for one request.
  [[nodiscard]] absl::Status Submit(std::unique_ptr<LiveRequest> request);
  // RequestQueue::CheckSize
  [[nodiscard]] absl::Status CheckSize(int prompts) const {
    return loop_.queue().CheckSize(prompts);
  }
  // The error with which Submit would refuse any request now, e.g. because the queue is full.
  // `others` further requests are about to be submitted.
  [[nodiscard]] absl::Status CheckRoom(int others) { return loop_.queue().CheckRoom(others); }
  // Cancels the request of `stream`. It leaves the queue at once, or the running requests after the
  // current forward. No effect on a request that has ended.
  void Cancel(RequestStream& stream) { loop_.queue().Cancel(stream); }

  // Ends the thread after the current loop. The requests that have not ended fail.
  void Interrupt() { loop_.queue().Interrupt(); }

  // Refuses new requests from now on. Waits up to `grace` for all requests to end.
  void Drain(absl::Duration grace) { loop_.queue().Drain(grace); }

  [[nodiscard]] SchedulerStats stats() const { return loop_.stats(); }

  // Calls `read` on the cycle's thread with the target and the current costs, and returns when it
  // has. UNAVAILABLE if no verifier is connected, or if the thread is too busy for seconds.
  [[nodiscard]] absl::Status ReadCosts(CostInquiries::Read read) {
    return loop_.ReadCosts(std::move(read));
  }

 private:
  ServingLoop loop_;
  std::thread thread_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_H_
