// RunningRequests: the admitted requests, and how each of them leaves: at its end, for a client
// that does not read, or to wait again. Every exit gives back the request's slot in the queue and
// its pages of the KV cache.
//
// A request whose client does not read is parked: it gives back slot and pages, and waits in the
// queue again when its client has read. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_RUNNING_REQUESTS_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_RUNNING_REQUESTS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/schedule/live_request.h"
#include "orchestrator/schedule/log_throttle.h"
#include "orchestrator/schedule/request_queue.h"
#include "orchestrator/schedule/scheduler_options.h"
#include "orchestrator/schedule/verifier_link.h"

namespace bastion {

class RunningRequests {
 public:
  using Request = std::unique_ptr<LiveRequest>;

  // The pointers must outlive this object.
  RunningRequests(const SchedulerOptions& options, RequestQueue* queue, const VerifierLink* link,
                  Drafter* drafter)
      : options_(options), queue_(*queue), link_(*link), drafter_(*drafter) {}

  // In the order of their last admission.
  [[nodiscard]] const std::vector<Request>& all() const { return running_; }
  [[nodiscard]] bool empty() const { return running_.empty(); }
  [[nodiscard]] size_t size() const { return running_.size(); }
  [[nodiscard]] bool has_parked() const { return !parked_.empty(); }

  // Tokens that fit into the free pages of the KV cache: those of the last reply, plus the pages of
  // the sequences closed since. Until the next reply, pages that closed sequences share with others
  // count as free.
  [[nodiscard]] int64_t free_tokens() const { return free_tokens_; }
  void set_free_tokens(int64_t tokens) { free_tokens_ = tokens; }

  // Adds a request that was taken from the queue.
  LiveRequest& Add(Request request) { return *running_.emplace_back(std::move(request)); }
  // Closes the sequence so that it can be opened again, and returns the request, which the caller
  // passes to Requeue or Fail.
  [[nodiscard]] Request Suspend(size_t index);
  // The suspended request waits again, before all others.
  void Requeue(Request request);
  // The suspended request ends with `error`.
  void Fail(const Request& request, const absl::Status& error);

  // Removes requests that are done, failed, canceled, or too late.
  void Retire();
  // Parks requests whose clients do not read.
  void Park();
  // Moves parked requests whose clients have read back to the queue.
  void ReturnParked();
  // Queues the other answers to the prompts that are now prefilled.
  void QueueOtherAnswers();
  // Fails all requests: waiting, running and parked. The queue refuses new ones with `error`.
  void FailAll(const absl::Status& error);

 private:
  // The error of a request that cannot continue: canceled, past its deadline, or read too slowly.
  [[nodiscard]] absl::Status CheckClient(const LiveRequest& request) const;
  // Closes the request's sequence and counts its pages as free.
  void ReleasePages(const LiveRequest& request);

  const SchedulerOptions options_;
  RequestQueue& queue_;
  const VerifierLink& link_;
  Drafter& drafter_;
  std::vector<Request> running_;
  std::vector<Request> parked_;
  int64_t free_tokens_ = 0;
  LogThrottle parking_log_{kLogInterval};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_RUNNING_REQUESTS_H_
