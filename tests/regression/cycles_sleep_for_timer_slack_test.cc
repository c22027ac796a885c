// While requests were running, every cycle looked for new ones with a timeout of zero. The kernel
// then slept for the slack of its timers, so that a cycle of 0.4 ms took 0.09 ms longer.
#include <sys/resource.h>

#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

long Sleeps() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

TEST(CyclesSleepForTimerSlackTest, AWaitWithoutTimeDoesNotSleep) {
  Mutex mutex;
  MutexLock lock(&mutex);
  const long before = Sleeps();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(mutex.AwaitWithTimeout([] { return false; }, absl::ZeroDuration()));
  }
  EXPECT_LT(Sleeps() - before, 100);
}

}  // namespace
}  // namespace bastion
