#include "common/host/call_watchdog.h"

#include <optional>

#include "absl/strings/match.h"
#include "common/base/clock.h"

namespace bastion::wire {
namespace {

constexpr char kHealthPrefix[] = "/grpc.health.";

// Watches the messages of one call.
class WriteWatch final : public grpc::experimental::Interceptor {
 public:
  WriteWatch(CallWatchdog* watchdog, const grpc::ServerContextBase* context,
             absl::Duration patience)
      : watchdog_(watchdog), context_(context), patience_(patience) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_MESSAGE)) {
      watch_.emplace(watchdog_->Expect(context_, Clock::Real().Now() + patience_));
    }
    // After a cancellation, too.
    if (methods->QueryInterceptionHookPoint(Hook::POST_SEND_MESSAGE)) watch_.reset();
    methods->Proceed();
  }

 private:
  CallWatchdog* const watchdog_;
  const grpc::ServerContextBase* const context_;
  const absl::Duration patience_;
  std::optional<CallWatchdog::Watch> watch_;
};

}  // namespace

CallWatchdog::CallWatchdog(absl::Duration interval)
    : interval_(interval), thread_([this] { Main(); }) {}

CallWatchdog::~CallWatchdog() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

CallWatchdog::Watch CallWatchdog::Expect(const grpc::ServerContextBase* context,
                                         absl::Duration deadline) {
  MutexLock lock(&mutex_);
  const Key key = {deadline, count_++};
  watched_.emplace(key, context);
  return Watch(this, key);
}

void CallWatchdog::Forget(Key key) {
  MutexLock lock(&mutex_);
  watched_.erase(key);
}

void CallWatchdog::Main() {
  const auto stopped = [this] {
    mutex_.AssertHeld();
    return stopped_;
  };
  MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(stopped, interval_)) CancelExpired();
}

void CallWatchdog::CancelExpired() {
  const absl::Duration now = Clock::Real().Now();
  while (!watched_.empty() && watched_.begin()->first.first <= now) {
    // Under the lock, so that the call cannot end meanwhile.
    watched_.begin()->second->TryCancel();
    watched_.erase(watched_.begin());
  }
}

grpc::experimental::Interceptor* WriteWatchFactory::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* call) {
  if (absl::StartsWith(call->method(), kHealthPrefix)) return nullptr;
  return new WriteWatch(watchdog_, call->server_context(), patience_);
}

}  // namespace bastion::wire
