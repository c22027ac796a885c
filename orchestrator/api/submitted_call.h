// SubmittedCall: a call whose request the scheduler has accepted, and the output of its answers.
// Each protocol serves its calls with one. Destroying it cancels what is left of the answers.
// Thread-compatible: used by the thread of the call.
#ifndef BASTION_ORCHESTRATOR_API_SUBMITTED_CALL_H_
#define BASTION_ORCHESTRATOR_API_SUBMITTED_CALL_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/schedule/prepared_request.h"
#include "orchestrator/schedule/request_stream.h"
#include "orchestrator/schedule/scheduler.h"

namespace bastion {

// What the calls of a service share. Nothing is owned.
struct CallOptions {
  const ServedModel* model;
  Scheduler* scheduler;
  ServingObserver* observer = nullptr;  // Is told of the requests.
  // The minimum time between two deltas of an answer. Output that is decoded in between is sent
  // together.
  absl::Duration stream_interval = absl::ZeroDuration();
};

class SubmittedCall {
 public:
  // Submits `requests`, one per prompt. The answers to the first prompt have the first numbers, and
  // so on. All are accepted or none. If one of them fails later, so does the call. `abort` is
  // called if the call fails while the thread of the call is blocked by a client that does not read
  // (RequestStream::SetAbortCallback). Errors: Scheduler::Submit.
  [[nodiscard]] static absl::StatusOr<SubmittedCall> Submit(const CallOptions& options,
                                                            std::vector<PreparedRequest> requests,
                                                            std::function<void()> abort = nullptr);
  ~SubmittedCall();
  SubmittedCall(SubmittedCall&&) = default;
  SubmittedCall& operator=(SubmittedCall&&) = delete;

  // Waits for the next output of an answer. False at the end of the call, or soon after
  // `is_canceled` returns true.
  [[nodiscard]] bool Next(absl::FunctionRef<bool()> is_canceled, OutputDelta& delta);
  // OK if all answers are complete; CANCELLED if `is_canceled` returned true. REQUIRES: Next
  // returned false.
  [[nodiscard]] const absl::Status& status() const { return status_; }
  // RequestStream::ended
  [[nodiscard]] std::optional<absl::Duration> ended() const { return stream_->ended(); }

 private:
  SubmittedCall(Scheduler* scheduler, std::shared_ptr<RequestStream> stream)
      : scheduler_(scheduler), stream_(std::move(stream)) {}

  Scheduler* scheduler_;
  std::shared_ptr<RequestStream> stream_;  // Null after a move.
  absl::Status status_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_SUBMITTED_CALL_H_
