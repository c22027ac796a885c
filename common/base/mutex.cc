#include "common/base/mutex.h"

#include <algorithm>

namespace bastion {
namespace {

// Longer than any process lives, and no overflow when added to now.
constexpr absl::Duration kForever = absl::Hours(24 * 365);

}  // namespace

void Mutex::WakeReady() {
  for (Waiter* waiter : waiters_) {
    if (waiter->condition()) waiter->woken.notify_one();
  }
}

bool Mutex::AwaitWithTimeout(absl::FunctionRef<bool()> condition, absl::Duration patience) {
  if (condition()) return true;
  const auto deadline =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(std::min(patience, kForever));
  WakeReady();  // What was written before may be what another one waits for.
  Waiter self{condition, {}};
  waiters_.push_back(&self);
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  while (!condition()) {
    if (self.woken.wait_until(lock, deadline) == std::cv_status::timeout) break;
  }
  lock.release();  // Still locked: the caller unlocks.
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &self));
  return condition();
}

}  // namespace bastion
