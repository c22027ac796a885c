// CallWatchdog: cancels calls that a client holds up. With gRPC's synchronous API, a thread that
// writes to a client waits until the client has taken the message, and no deadline ends the wait.
// One thread watches all calls. Thread-safe.
#ifndef BASTION_COMMON_HOST_CALL_WATCHDOG_H_
#define BASTION_COMMON_HOST_CALL_WATCHDOG_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace bastion::wire {

class CallWatchdog {
 private:
  using Key = std::pair<absl::Duration, uint64_t>;  // The deadline, and a number.

 public:
  // A call that is watched until this is destroyed. The watchdog must outlive it.
  class Watch {
   public:
    Watch(Watch&& other) noexcept
        : watchdog_(std::exchange(other.watchdog_, nullptr)), key_(other.key_) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    Watch& operator=(Watch&&) = delete;
    ~Watch() {
      if (watchdog_ != nullptr) watchdog_->Forget(key_);
    }

   private:
    friend class CallWatchdog;
    Watch(CallWatchdog* watchdog, Key key) : watchdog_(watchdog), key_(key) {}
    CallWatchdog* watchdog_;
    const Key key_;
  };

  // Calls are canceled up to `interval` after their deadline.
  explicit CallWatchdog(absl::Duration interval);
  ~CallWatchdog();

  // Cancels the call of `context` at `deadline` (on Clock::Real()), unless the result is destroyed
  // before. REQUIRES: `context` outlives the result. The call uses the synchronous API: completion
  // callbacks would run under the watchdog's lock.
  [[nodiscard]] Watch Expect(const grpc::ServerContextBase* context, absl::Duration deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Main() ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Key key) ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration interval_;
  Mutex mutex_;
  std::map<Key, const grpc::ServerContextBase*> watched_ ABSL_GUARDED_BY(mutex_);
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Watches every message that a server sends with the synchronous API: a call is canceled if its
// client does not take a message within `patience`. The health service is not watched; it uses
// callbacks and holds no thread.
class WriteWatchFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `watchdog` must outlive the server.
  WriteWatchFactory(CallWatchdog* watchdog, absl::Duration patience)
      : watchdog_(watchdog), patience_(patience) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

 private:
  CallWatchdog* const watchdog_;
  const absl::Duration patience_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_CALL_WATCHDOG_H_
