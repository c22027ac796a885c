// Mutex: a lock whose holder can wait for a condition on the guarded data.
//
// It works like absl::Mutex: a condition is a function, there is no notify call, and every Unlock
// evaluates the conditions of all waiters and wakes those whose condition is true. It is built from
// std types because Debian's absl::Mutex is not compiled for the thread sanitizer, which would
// report every access to guarded data as a race.
#ifndef BASTION_COMMON_BASE_MUTEX_H_
#define BASTION_COMMON_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace bastion {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  [[nodiscard]] bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    WakeReady();
    mutex_.unlock();
  }

  // Releases the lock until `condition` is true or `timeout` has passed, then reacquires it.
  // Returns condition(). Any thread that unlocks may call `condition`, under the lock. So
  // `condition` may read the guarded data but must not lock anything. REQUIRES: the caller holds
  // the lock.
  bool AwaitWithTimeout(absl::FunctionRef<bool()> condition, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this);

  // Tells the thread-safety analysis that the lock is held. Call it inside conditions.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  struct Waiter {
    absl::FunctionRef<bool()> condition;
    std::condition_variable woken;
  };
  // Wakes the waiters whose condition is true.
  void WakeReady();

  std::mutex mutex_;
  std::vector<Waiter*> waiters_;  // Guarded by mutex_.
};

// Holds the lock during its lifetime.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_MUTEX_H_
