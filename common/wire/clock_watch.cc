#include "common/wire/clock_watch.h"

#include <dlfcn.h>
#include <grpc/support/sync.h>
#include <grpc/support/time.h>

#include <chrono>
#include <list>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"

namespace bastion::wire {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(250);
// NTP changes the rate of the clock by less.
constexpr absl::Duration kLeastJump = absl::Milliseconds(50);

// The waits of gRPC that have a deadline.
class TimedWaits {
 public:
  static TimedWaits& All() {
    static auto* const all = new TimedWaits;  // Threads of gRPC wait until the process ends.
    return *all;
  }

  std::list<gpr_cv*>::iterator Add(gpr_cv* condition) {
    MutexLock lock(&mutex_);
    return waits_.insert(waits_.end(), condition);
  }
  void Remove(std::list<gpr_cv*>::iterator wait) {
    MutexLock lock(&mutex_);
    waits_.erase(wait);
  }
  void WakeAll() {
    MutexLock lock(&mutex_);
    for (gpr_cv* const condition : waits_) gpr_cv_broadcast(condition);
  }

 private:
  Mutex mutex_;
  std::list<gpr_cv*> waits_ ABSL_GUARDED_BY(mutex_);
};

// absl::Now() reads the clock only every two seconds, and may miss a short jump.
absl::Duration WallMinusSteady() {
  return absl::FromChrono(std::chrono::system_clock::now().time_since_epoch()) -
         Clock::Real().Now();
}

}  // namespace

ClockWatch::ClockWatch() : thread_([this] { Main(); }) {}

ClockWatch::~ClockWatch() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void ClockWatch::Main() {
  const auto stopping = [this] {
    mutex_.AssertHeld();
    return stopping_;
  };
  absl::Duration difference = WallMinusSteady();
  bool jumped = false;
  MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(stopping, kInterval)) {
    const absl::Duration now = WallMinusSteady();
    // A thread may have computed its deadline before the jump and begun to wait after the first
    // wake-up.
    const bool again = jumped;
    jumped = absl::AbsDuration(now - difference) > kLeastJump;
    if (jumped) LOG(WARNING) << "the wall clock was set by " << now - difference;
    if (jumped || again) TimedWaits::All().WakeAll();
    difference = now;
  }
}

}  // namespace bastion::wire

// Takes the place of gRPC's function of this name, also in gRPC's libraries. Callers accept that it
// returns early.
extern "C" int gpr_cv_wait(gpr_cv* condition, gpr_mu* mutex, gpr_timespec deadline) {
  using bastion::wire::TimedWaits;
  static const auto wait =
      reinterpret_cast<decltype(&gpr_cv_wait)>(dlsym(RTLD_NEXT, "gpr_cv_wait"));
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return wait(condition, mutex, deadline);
  }
  const auto entry = TimedWaits::All().Add(condition);
  const int timed_out = wait(condition, mutex, deadline);
  TimedWaits::All().Remove(entry);
  return timed_out;
}
