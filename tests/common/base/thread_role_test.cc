#include "common/base/thread_role.h"

#include <thread>

#include "gtest/gtest.h"

namespace bastion {
namespace {

// A count that belongs to one thread. That clang refuses other uses is checked when this compiles:
// `++count_` outside of Add, or Add without the role, is an error.
class Counter {
 public:
  void Run() {
    const ThreadRoleScope scope(&role_);
    Add();
    const auto callback = [this] {
      role_.AssertHeld();
      Add();
    };
    callback();
  }
  int Take() {
    const ThreadRoleScope scope(&role_);
    return count_;
  }

 private:
  void Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { ++count_; }

  ThreadRole role_;
  int count_ ABSL_GUARDED_BY(role_) = 0;
};

TEST(ThreadRoleTest, OneThreadAfterAnotherHasTheRole) {
  Counter counter;
  std::thread first([&] { counter.Run(); });
  first.join();
  counter.Run();
  EXPECT_EQ(counter.Take(), 4);
}

// As another thread does.
void TakeAgain(ThreadRole* role) ABSL_NO_THREAD_SAFETY_ANALYSIS { role->Take(); }

TEST(ThreadRoleDeathTest, ARoleOfAnotherThreadCannotBeTaken) {
  ThreadRole role;
  const ThreadRoleScope scope(&role);
  EXPECT_DEATH(TakeAgain(&role), "another thread");
}

}  // namespace
}  // namespace bastion
