#include "common/base/mutex.h"

#include <algorithm>

namespace bastion {
namespace {

// Longer than any process runs, yet adding it to the current time does not overflow.
constexpr absl::Duration kForever = absl::Hours(24 * 365);

}  // namespace

void Mutex::WakeReady() {
  for (Waiter* waiter : waiters_) {
    if (waiter->condition()) waiter->woken.notify_one();
  }
}

bool Mutex::AwaitWithTimeout(absl::FunctionRef<bool()> condition, absl::Duration timeout) {
  if (condition()) return true;
  // The kernel would sleep for its timer slack, about 60 us, even if the time is over.
  if (timeout <= absl::ZeroDuration()) return false;
  const auto deadline =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(std::min(timeout, kForever));
  WakeReady();  // Another thread may be waiting for a change that the caller just made.
  Waiter self{condition, {}};
  waiters_.push_back(&self);
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  while (!condition()) {
    if (self.woken.wait_until(lock, deadline) == std::cv_status::timeout) break;
  }
  lock.release();  // Keep the mutex locked: the caller unlocks it.
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &self));
  return condition();
}

}  // namespace bastion
