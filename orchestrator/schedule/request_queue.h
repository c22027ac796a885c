// RequestQueue: the requests that wait for admission. fair_order.h has their order.
//
// It decides whether a request may enter: it refuses requests while it is full, while the service
// is not ready, and while it drains. A canceled request leaves at once. A request whose deadline
// has passed leaves at the next call of Push, AwaitRequest or PopIf; the cycle's thread calls the
// latter two before every forward. A request whose call has failed leaves when its turn comes.
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_REQUEST_QUEUE_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_REQUEST_QUEUE_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "orchestrator/schedule/fair_order.h"
#include "orchestrator/schedule/live_request.h"
#include "orchestrator/schedule/log_throttle.h"
#include "orchestrator/schedule/retry_estimate.h"

namespace bastion {

class RequestQueue {
 public:
  using Request = std::unique_ptr<LiveRequest>;
  // Requests by state, all from one moment. A popped request does not count once it has been
  // canceled, although the cycle's thread may be in a call and not have dropped it yet.
  struct Counts {
    int waiting = 0;  // Preempted requests included.
    int running = 0;  // Popped, and neither ended nor parked.
    int parked = 0;
  };

  // Refuses requests until Accept(). New requests are also refused while `capacity` prompts wait.
  // The other answers to a prompt that is being served do not count.
  // `clock` must outlive this object.
  explicit RequestQueue(int capacity, const Clock* clock = &Clock::Real());

  // ---- called by the threads of RPCs ----
  // INVALID_ARGUMENT if a call has more prompts than the queue can hold. A retry could not succeed.
  [[nodiscard]] absl::Status CheckSize(int prompts) const;
  // The error with which Push would refuse a request now. `others` further requests are about to
  // enter. Call it before the work that Push needs.
  [[nodiscard]] absl::Status CheckRoom(int others) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds new requests, all or none. UNAVAILABLE while draining; the status of Refuse() while not
  // accepting; RESOURCE_EXHAUSTED with a retry delay (error_details.h) if there is no room.
  [[nodiscard]] absl::Status PushAll(std::vector<Request> requests) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one request.
  [[nodiscard]] absl::Status Push(Request request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels the stream, and removes its request if that waits here.
  void Cancel(RequestStream& stream) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- called by the thread that starts and stops the service ----
  // Refuses new requests from now on. Then waits up to `grace` until all counts() are 0.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the waits of the cycle's thread, now and in the future.
  void Interrupt() ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- called by the cycle's thread ----
  void Accept() ABSL_LOCKS_EXCLUDED(mutex_);
  // Refuses new requests with `reason`. Those that wait go on waiting.
  void Pause(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // Fails all waiting requests with `reason`, and refuses new ones with it. No request can enter
  // in between.
  void Refuse(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until a request waits, for `timeout` at most. False after Interrupt().
  bool AwaitRequest(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for `timeout`. Returns at once after Interrupt().
  void Sleep(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes and returns the next request if `fits` accepts it; null if not, or if none waits.
  [[nodiscard]] Request PopIf(absl::FunctionRef<bool(const LiveRequest&)> fits)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The other answers of a popped request wait from now on, before the others of their client and
  // weight. They are never refused. If their call has been canceled, they fail.
  void PushAnswers(std::vector<Request> answers) ABSL_LOCKS_EXCLUDED(mutex_);
  // A popped request lost its slot for lack of memory or with the verifier. It waits again, before
  // all others. It is never refused.
  void ReturnPreempted(Request request) ABSL_LOCKS_EXCLUDED(mutex_);
  // A popped request gives back its slot, but does not wait here.
  void RecordParked(const LiveRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // A parked request waits again, before the others of its client and weight. It is never refused.
  void ReturnParked(Request request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts `tokens` as service of a popped request.
  void Charge(const LiveRequest& request, int tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // A popped request has ended.
  void RecordEnd(const LiveRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // A parked request has ended.
  void RecordParkedEnd(const LiveRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);

  [[nodiscard]] Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Requests of the cycle's thread, and their streams.
  using Popped = absl::flat_hash_map<const LiveRequest*, std::shared_ptr<RequestStream>>;

  [[nodiscard]] Counts CountRequests() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Adds a request that was popped before, with `add`. Returns the request if it has been canceled
  // meanwhile. The caller fails it without the lock.
  [[nodiscard]] Request Return(Request request, void (FairOrder::*add)(Request))
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A running request gives back its slot.
  void ReleaseSlot(const LiveRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error of a new request, if `others` others enter before it. Adds the requests whose
  // deadline has passed to `expired`; the caller fails them without the lock.
  [[nodiscard]] absl::Status Refusal(int others, std::vector<Request>& expired)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error of a request that the full queue refuses.
  [[nodiscard]] absl::Status FullError() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // While the call of the next request has ended, removes its requests. The caller fails them
  // without the lock.
  [[nodiscard]] std::vector<Request> RemoveEndedCalls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the requests whose deadline has passed. The caller fails them without the lock.
  [[nodiscard]] std::vector<Request> RemoveExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int capacity_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  FairOrder order_ ABSL_GUARDED_BY(mutex_);
  Popped running_ ABSL_GUARDED_BY(mutex_);
  Popped parked_ ABSL_GUARDED_BY(mutex_);
  RetryEstimate retry_ ABSL_GUARDED_BY(mutex_);
  LogThrottle refusal_log_ ABSL_GUARDED_BY(mutex_){kLogInterval};
  // No waiting request expires before this time.
  absl::Duration next_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_REQUEST_QUEUE_H_
