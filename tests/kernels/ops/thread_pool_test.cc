#include "kernels/ops/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <new>
#include <numeric>
#include <set>

#include "common/base/cores.h"

namespace bastion::kernels {
namespace {

TEST(ThreadPoolTest, RunsEveryIndexOnceWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int count : {0, 1, 2, 3, 17, 1000}) {
      std::vector<int> hits(count, 0);
      pool.ParallelFor(count, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[i];
      });
      EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0), count);
      for (const int hit : hits) EXPECT_EQ(hit, 1);
    }
  }
}

TEST(ThreadPoolTest, OtherThreadsTakeTheWorkOfABlockedThread) {
  ThreadPool pool(2);
  std::atomic<int> held{0}, done{0};
  pool.ParallelFor(8, [&](int64_t begin, int64_t end) {
    // The thread that runs the first index of the second share waits until all other indices are
    // done.
    if (begin == 4) {
      while (done < 7) std::this_thread::yield();
      held = static_cast<int>(end - begin);
    }
    done += static_cast<int>(end - begin);
  });
  EXPECT_EQ(done, 8);
  EXPECT_EQ(held, 1);
}

TEST(ThreadPoolTest, TheGrainLimitsTheNumberOfRanges) {
  ThreadPool pool(2);
  for (const int64_t grain : {1, 3, 4, 16}) {
    std::atomic<int64_t> ranges{0};
    pool.ParallelFor(20, grain, [&](int64_t begin, int64_t end) { ranges += end > begin; });
    EXPECT_LE(ranges, 2 * ((10 + grain - 1) / grain)) << grain;
    EXPECT_GE(ranges, 2) << grain;
  }
}

// An exception in a worker used to end the process.
TEST(ThreadPoolTest, AnExceptionReachesTheCallerOnceAllThreadsHaveFinished) {
  ThreadPool pool(3);
  const std::thread::id caller = std::this_thread::get_id();
  for (const bool in_caller : {false, true}) {
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> started{0}, running{0};
      std::atomic<bool> thrown{false};
      const auto body = [&](int64_t, int64_t) {
        ++running;
        ++started;
        while (started < pool.threads()) std::this_thread::yield();  // All threads take part.
        if ((std::this_thread::get_id() == caller) == in_caller) {
          thrown = true;
          --running;
          throw std::bad_alloc();
        }
        while (!thrown) std::this_thread::yield();
        for (int i = 0; i < 10; ++i) std::this_thread::yield();
        --running;
      };
      EXPECT_THROW(pool.ParallelFor(12, body), std::bad_alloc);
      EXPECT_EQ(running, 0);
    }
    // The pool still works.
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(100, [&](int64_t begin, int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 100);
  }
}

TEST(ThreadPoolTest, AnExceptionOfAShortLoopReachesTheCaller) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.ParallelFor(1, [](int64_t, int64_t) { throw std::bad_alloc(); }),
               std::bad_alloc);
}

TEST(ThreadPoolTest, ManyShortLoopsFinishEvenAfterPauses) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 2000; ++i) {
      std::atomic<int64_t> sum{0};
      pool.ParallelFor(8, [&](int64_t begin, int64_t end) { sum += end - begin; });
      total += sum;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // Let the workers fall asleep.
    pool.Wake();
  }
  EXPECT_EQ(total, 5 * 2000 * 8);
}

// Returns the cores that each thread of the pool may run on. Collects them in a loop that all
// threads run at the same time.
std::multiset<std::vector<int>> CoresOfMembers(ThreadPool& pool) {
  std::mutex mutex;
  std::multiset<std::vector<int>> cores;
  std::atomic<int> arrived{0};
  pool.ParallelFor(pool.threads(), [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < pool.threads()) std::this_thread::yield();
    std::lock_guard<std::mutex> lock(mutex);
    cores.insert(UsableCores());
  });
  return cores;
}

TEST(ThreadPoolTest, APoolWithOneThreadPerCoreUsesDistinctCores) {
  const std::vector<int> all = UsableCores();
  ThreadPool pool(static_cast<int>(all.size()));
  std::multiset<std::vector<int>> expected;
  for (const int core : all) expected.insert({core});
  std::atomic<int> pinned{-1}, done{-1};
  std::thread caller([&] {
    for (const int core : all) {
      while (pinned != core) std::this_thread::yield();
      EXPECT_EQ(CoresOfMembers(pool), expected) << "the caller on core " << core;
      done = core;
    }
  });
  for (const int core : all) {
    PinThread(core, caller);
    pinned = core;
    while (done != core) std::this_thread::yield();
  }
  caller.join();
}

TEST(ThreadPoolTest, APoolWithMoreThreadsThanCoresDoesNotPinThem) {
  const std::vector<int> all = UsableCores();
  ThreadPool pool(static_cast<int>(all.size()) + 1);
  for (const std::vector<int>& cores : CoresOfMembers(pool)) EXPECT_EQ(cores, all);
}

}  // namespace
}  // namespace bastion::kernels
