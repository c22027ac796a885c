// Mutex: a mutual exclusion lock whose holder can wait for a condition on what it guards.
//
// The same manners as absl::Mutex (a condition is a function, nobody calls notify, the one who
// unlocks decides whose condition has become true), made of std parts: Debian's absl::Mutex is not
// built for the thread sanitizer, which then takes everything it guards for a race.
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

  // Gives the lock up until `condition` holds or `patience` is over, and takes it again; returns
  // condition(). The condition is called under the lock, by any thread that unlocks: it may read
  // what this mutex guards and must not lock anything. REQUIRES: the lock is held.
  bool AwaitWithTimeout(absl::FunctionRef<bool()> condition, absl::Duration patience)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this);

  // For the analysis, in conditions: the caller of this function holds the lock.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  struct Waiter {
    absl::FunctionRef<bool()> condition;
    std::condition_variable woken;
  };
  void WakeReady();

  std::mutex mutex_;
  std::vector<Waiter*> waiters_;  // Guarded by mutex_.
};

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
