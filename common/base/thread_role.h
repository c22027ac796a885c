// ThreadRole: the right to use what belongs to one thread. Members are declared
// ABSL_GUARDED_BY(role) and functions ABSL_EXCLUSIVE_LOCKS_REQUIRED(role), as with a lock, and
// clang refuses code that uses them without the role. It is no lock: no thread waits for it, and a
// thread that takes a role of another one ends the process. Thread-safe. Header-only.
#ifndef BASTION_COMMON_BASE_THREAD_ROLE_H_
#define BASTION_COMMON_BASE_THREAD_ROLE_H_

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"

namespace bastion {

class ABSL_LOCKABLE ThreadRole {
 public:
  // The calling thread takes the role. REQUIRES: no thread has it.
  void Take() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    CHECK(holder_.exchange(std::this_thread::get_id()) == std::thread::id())
        << "another thread has this role";
  }
  void GiveBack() ABSL_UNLOCK_FUNCTION() { holder_ = std::thread::id(); }

  // Tells the analysis that the calling thread has the role. Call it in callbacks that only this
  // thread calls.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {
    DCHECK(holder_ == std::this_thread::get_id()) << "another thread has this role";
  }

 private:
  std::atomic<std::thread::id> holder_ = std::thread::id();
};

// The current thread has the role during the lifetime of this object.
class ABSL_SCOPED_LOCKABLE ThreadRoleScope {
 public:
  explicit ThreadRoleScope(ThreadRole* role) ABSL_EXCLUSIVE_LOCK_FUNCTION(role) : role_(role) {
    role->Take();
  }
  ~ThreadRoleScope() ABSL_UNLOCK_FUNCTION() { role_->GiveBack(); }
  ThreadRoleScope(const ThreadRoleScope&) = delete;
  ThreadRoleScope& operator=(const ThreadRoleScope&) = delete;

 private:
  ThreadRole* const role_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_THREAD_ROLE_H_
