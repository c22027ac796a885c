#include "kernels/thread_pool.h"

namespace bastion::kernels {
namespace {

// About 30 µs where a pause takes 140 cycles: longer than the gap between two loops of a step, and
// short enough to leave the core to the other services of this machine between two steps.
constexpr int kSpins = 600;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int member = 1; member < threads; ++member) {
    workers_.emplace_back([this, member] { WorkerMain(member); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1);
  Wake();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Wake() {
  if (sleepers_.load() == 0) return;
  doorbell_.fetch_add(1);
  doorbell_.notify_all();
}

void ThreadPool::Run(const Loop& loop) {
  loop_ = loop;
  unfinished_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  // Sequentially consistent with sleepers_: a worker either sees the new generation before it
  // sleeps, or is counted there and woken.
  generation_.fetch_add(1);
  Wake();
  RunShare(loop, 0);
  for (int spins = 0; unfinished_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::RunShare(const Loop& loop, int member) const {
  const int64_t begin = loop.count * member / threads();
  const int64_t end = loop.count * (member + 1) / threads();
  if (begin < end) loop.run(loop.context, begin, end);
}

uint32_t ThreadPool::AwaitNext(uint32_t seen) {
  for (;;) {
    for (int spins = 0; spins < kSpins; ++spins) {
      const uint32_t now = generation_.load(std::memory_order_acquire);
      if (now != seen) return now;
      Pause();
    }
    const uint32_t ring = doorbell_.load();
    sleepers_.fetch_add(1);
    if (generation_.load() == seen) doorbell_.wait(ring);
    sleepers_.fetch_sub(1);
  }
}

void ThreadPool::WorkerMain(int member) {
  uint32_t seen = 0;
  for (;;) {
    seen = AwaitNext(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    RunShare(loop_, member);
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace bastion::kernels
