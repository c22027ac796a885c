#include "common/host/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace bastion::wire {
namespace {

// How often the thread looks at the time limit.
constexpr absl::Duration kPoll = absl::Milliseconds(100);

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

[[noreturn]] void EndAtOnce(int status) {
  base::FlushLog();
  _exit(status);
}

const char* NameOf(int signal) { return signal == SIGTERM ? "SIGTERM" : "SIGINT"; }

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A reader of the log that ends must not end the service.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { Main(); });
}

StopSignals::~StopSignals() {
  finished_ = true;
  thread_.join();
}

void StopSignals::Arm(absl::Duration limit) {
  MutexLock lock(&mutex_);
  armed_ = true;
  limit_ = limit;
}

std::string StopSignals::Wait() {
  const auto signaled = [this] {
    mutex_.AssertHeld();
    return signal_ != 0;
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(signaled, absl::InfiniteDuration());
  return NameOf(signal_);
}

void StopSignals::Main() {
  const sigset_t set = Signals();
  const timespec poll = absl::ToTimespec(kPoll);
  while (!finished_) Handle(std::max(0, sigtimedwait(&set, nullptr, &poll)));
}

void StopSignals::Handle(int signal) {
  const absl::Duration now = Clock::Real().Now();
  MutexLock lock(&mutex_);
  if (signal != 0 && armed_ && signal_ == 0) {
    signal_ = signal;
    deadline_ = now + limit_;
  } else if (signal != 0) {
    LOG(WARNING) << NameOf(signal) << ": ending at once";
    EndAtOnce(128 + signal);
  } else if (now > deadline_) {
    LOG(ERROR) << "the service did not stop within " << limit_ << ": ending at once";
    EndAtOnce(1);
  }
}

}  // namespace bastion::wire
