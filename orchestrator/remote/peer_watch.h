// PeerWatch: notices when another service is dead, hangs, cannot be reached, or was restarted, also
// while no call runs. A separate thread asks the peer a question several times per timeout.
//
// The peer is lost if
//   - it does not answer within the timeout, or cannot be reached,
//   - it was restarted since the last Renew(), or
//   - its engine is in a call without progress for longer than the timeout, and for longer than
//     kSlack times the predicted time of the call, or
//   - its engine is idle for longer than the timeout although a call of this process waits for its
//     reply: the request or the reply was lost. A large request may be on its way for longer.
// It stays lost until it answers again; after a restart or a lost call, until Renew(). Thread-safe.
#ifndef BASTION_ORCHESTRATOR_REMOTE_PEER_WATCH_H_
#define BASTION_ORCHESTRATOR_REMOTE_PEER_WATCH_H_

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/stages/stage_data.h"
#include "common/stages/stall_watch.h"

namespace bastion {

class PeerWatch {
 public:
  static constexpr double kSlack = 5;
  static constexpr int kQuestionsPerTimeout = 5;
  // Calls of a calibration take long.
  static constexpr absl::Duration kUnknownCall = absl::Seconds(6);
  // The slowest network that counts as one, in bytes per second.
  static constexpr double kSlowestNetwork = 1 << 20;

  // A call that waits for its reply, until this is destroyed. One at a time.
  class Call {
   public:
    // `bytes` is the size of the request.
    Call(PeerWatch* watch, size_t bytes) : watch_(*watch) {
      watch_.call_bytes_.store(bytes, std::memory_order_relaxed);
      watch_.call_.fetch_add(1, std::memory_order_release);
    }
    ~Call() { watch_.call_.fetch_add(1, std::memory_order_release); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    PeerWatch& watch_;
  };

  // Asks the peer, and returns within `timeout`. UNAVAILABLE or DEADLINE_EXCEEDED: no answer. Any
  // other error is an answer, too.
  using Ask = std::function<absl::StatusOr<EngineActivity>(absl::Duration timeout)>;

  // `peer` names the peer in error messages. The thread starts with the first AwaitAnswer().
  // `unknown_call` is the predicted time of a call before the first Expect() after Renew().
  PeerWatch(std::string peer, absl::Duration timeout, Ask ask,
            absl::Duration unknown_call = kUnknownCall);
  // Waits for the question that is being asked.
  ~PeerWatch();

  // Waits until a question that was asked after the last Renew() is answered, for at most the
  // timeout. Returns status(). For one thread.
  [[nodiscard]] absl::Status AwaitAnswer() ABSL_LOCKS_EXCLUDED(mutex_);
  // OK, or UNAVAILABLE if the peer is lost or has not answered a question that was asked after the
  // last Renew(). OK before the first AwaitAnswer().
  [[nodiscard]] absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the answers so far.
  void Renew() ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the answers so far if they show that the peer is lost. Returns whether they did.
  bool RenewIfLost() ABSL_LOCKS_EXCLUDED(mutex_);
  // The time that the next call is predicted to take.
  void Expect(absl::Duration predicted) { expected_.store(absl::ToInt64Nanoseconds(predicted)); }

 private:
  void Main() ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles the answer to a question that was asked after Renew() number `renewals`.
  void Judge(const absl::StatusOr<EngineActivity>& answer, uint64_t renewals)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  [[nodiscard]] absl::Status CheckEngine(const EngineActivity& activity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // UNAVAILABLE if the call that waits for its reply was lost.
  [[nodiscard]] absl::Status CheckCall(const EngineActivity& activity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string peer_;
  const absl::Duration timeout_;
  const Ask ask_;
  const absl::Duration unknown_call_;
  std::atomic<int64_t> expected_;  // Nanoseconds.
  // Grows when a call begins and when it ends, so it is odd while one waits, and names that call.
  std::atomic<uint64_t> call_{0};
  std::atomic<size_t> call_bytes_{0};  // The size of its request.
  mutable Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t renewals_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;  // Value of renewals_ that verdict_ belongs to.
  absl::Status verdict_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> instance_ ABSL_GUARDED_BY(mutex_);  // In the first answer since Renew().
  StallWatch stall_ ABSL_GUARDED_BY(mutex_);
  // The call that was waiting at the last answers while the engine was idle: its name, the number
  // of these answers, and the time of the first one.
  uint64_t unserved_call_ ABSL_GUARDED_BY(mutex_) = 0;
  int unserved_answers_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration unserved_since_ ABSL_GUARDED_BY(mutex_);
  bool call_lost_ ABSL_GUARDED_BY(mutex_) = false;  // Since the last Renew().
  std::thread thread_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_PEER_WATCH_H_
