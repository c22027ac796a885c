#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace bastion::kernels {
namespace {

TEST(ThreadPoolTest, EveryIndexIsRunOnceWhateverTheTeam) {
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

TEST(ThreadPoolTest, AMemberThatIsHeldUpKeepsOnePieceAndTheOthersDoTheRest) {
  ThreadPool pool(2);
  std::atomic<int> held{0}, done{0};
  pool.ParallelFor(8, [&](int64_t begin, int64_t end) {
    // Whoever runs the first index of the second share waits until all else is done.
    if (begin == 4) {
      while (done < 7) std::this_thread::yield();
      held = static_cast<int>(end - begin);
    }
    done += static_cast<int>(end - begin);
  });
  EXPECT_EQ(done, 8);
  EXPECT_EQ(held, 1);
}

TEST(ThreadPoolTest, NoRangeIsSmallerThanItsGrainAllows) {
  ThreadPool pool(2);
  for (const int64_t grain : {1, 3, 4, 16}) {
    std::atomic<int64_t> ranges{0};
    pool.ParallelFor(20, grain, [&](int64_t begin, int64_t end) { ranges += end > begin; });
    EXPECT_LE(ranges, 2 * ((10 + grain - 1) / grain)) << grain;
    EXPECT_GE(ranges, 2) << grain;
  }
}

TEST(ThreadPoolTest, LoopsAfterAPauseAndManyShortLoopsAllFinish) {
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

}  // namespace
}  // namespace bastion::kernels
