#include "common/base/mutex.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(MutexTest, AwaitReturnsImmediatelyIfTheConditionIsTrue) {
  Mutex mutex;
  MutexLock lock(&mutex);
  EXPECT_TRUE(mutex.AwaitWithTimeout([] { return true; }, absl::InfiniteDuration()));
}

TEST(MutexTest, AwaitReturnsFalseAfterTheTimeout) {
  Mutex mutex;
  MutexLock lock(&mutex);
  EXPECT_FALSE(mutex.AwaitWithTimeout([] { return false; }, absl::Milliseconds(5)));
  EXPECT_FALSE(mutex.AwaitWithTimeout([] { return false; }, absl::ZeroDuration()));
  EXPECT_FALSE(mutex.AwaitWithTimeout([] { return false; }, -absl::InfiniteDuration()));
}

TEST(MutexTest, AwaitReleasesTheLock) {
  Mutex mutex;
  bool written = false;
  std::thread other([&] {
    MutexLock lock(&mutex);
    written = true;
  });
  {
    MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout([&] { return written; }, absl::Seconds(10)));
  }
  other.join();
}

// Two threads take turns. Each waits for its turn without a timeout.
TEST(MutexTest, NoWakeupIsLost) {
  Mutex mutex;
  int turn = 0;
  const auto play = [&](int parity) {
    for (int i = 0; i < 2000; ++i) {
      MutexLock lock(&mutex);
      ASSERT_TRUE(
          mutex.AwaitWithTimeout([&] { return turn % 2 == parity; }, absl::InfiniteDuration()));
      ++turn;
    }
  };
  std::thread even([&] { play(0); }), odd([&] { play(1); });
  even.join();
  odd.join();
  EXPECT_EQ(turn, 4000);
}

TEST(MutexTest, AwaitWakesOtherWaitersBeforeItWaits) {
  Mutex mutex;
  bool first = false, second = false;
  std::thread other([&] {
    MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout([&] { return first; }, absl::Seconds(10)));
    second = true;
  });
  {
    MutexLock lock(&mutex);
    first = true;
    EXPECT_TRUE(mutex.AwaitWithTimeout([&] { return second; }, absl::Seconds(10)));
  }
  other.join();
}

TEST(MutexTest, EveryWaiterIsWokenByItsOwnCondition) {
  Mutex mutex;
  int value = 0;
  std::atomic<int> woken = 0;
  std::vector<std::thread> waiters;
  for (int wanted = 1; wanted <= 8; ++wanted) {
    waiters.emplace_back([&, wanted] {
      MutexLock lock(&mutex);
      if (mutex.AwaitWithTimeout([&] { return value >= wanted; }, absl::Seconds(10))) ++woken;
    });
  }
  for (int i = 0; i < 8; ++i) {
    MutexLock lock(&mutex);
    ++value;
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(woken, 8);
}

}  // namespace
}  // namespace bastion
