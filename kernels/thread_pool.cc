#include "kernels/thread_pool.h"

#include <algorithm>

namespace bastion::kernels {
namespace {

// About 30 µs where a pause takes 140 cycles: longer than the gap between two loops of a step, and
// short enough to leave the core to the other services of this machine between two steps.
constexpr int kSpins = 600;

// Of one member's share of a loop: small enough to leave something for others to take over.
constexpr int kMaxPieces = 4;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : shares_(threads) {
  for (int member = 1; member < threads; ++member) {
    workers_.emplace_back([this, member] { WorkerMain(member); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
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
  for (int member = 0; member < threads(); ++member) {
    Share& share = shares_[member];
    share.begin = loop.count * member / threads();
    share.end = loop.count * (member + 1) / threads();
    const int64_t worth = (share.end - share.begin + loop.grain - 1) / loop.grain;
    share.pieces = static_cast<int>(std::min<int64_t>(worth, kMaxPieces));
    share.taken.store(0, std::memory_order_relaxed);
  }
  // Sequentially consistent with sleepers_: a worker either sees the new generation before it
  // sleeps, or is counted there and woken.
  generation_.fetch_add(1);
  Wake();
  Work(0);
  generation_.fetch_add(1);  // Closed: whoever is not inside by now stays out.
  for (int spins = 0; inside_.load() > 0; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::Work(int member) {
  for (int i = 0; i < threads(); ++i) {
    Share& share = shares_[(member + i) % threads()];
    const int64_t count = share.end - share.begin;
    while (share.taken.load(std::memory_order_relaxed) < share.pieces) {
      const int piece = share.taken.fetch_add(1, std::memory_order_relaxed);
      if (piece >= share.pieces) break;
      loop_.run(loop_.context, share.begin + count * piece / share.pieces,
                share.begin + count * (piece + 1) / share.pieces);
    }
  }
}

bool ThreadPool::Enter(uint32_t generation) {
  inside_.fetch_add(1);
  if (generation_.load() == generation) return true;
  inside_.fetch_sub(1);
  return false;
}

// Sleeps until there is an open loop other than `seen`; returns its generation, `seen` to stop.
uint32_t ThreadPool::AwaitNext(uint32_t seen) {
  const auto news = [&](uint32_t now) { return now != seen && IsOpen(now); };
  for (;;) {
    for (int spins = 0; spins < kSpins; ++spins) {
      const uint32_t now = generation_.load(std::memory_order_acquire);
      if (news(now)) return now;
      Pause();
    }
    const uint32_t ring = doorbell_.load();
    sleepers_.fetch_add(1);
    if (!news(generation_.load()) && !stopping_.load()) doorbell_.wait(ring);
    sleepers_.fetch_sub(1);
    if (stopping_.load()) return seen;
  }
}

void ThreadPool::WorkerMain(int member) {
  uint32_t seen = 0;
  while (!stopping_.load()) {
    const uint32_t now = AwaitNext(seen);
    if (now == seen || !Enter(now)) continue;
    Work(member);
    inside_.fetch_sub(1);
    seen = now;
  }
}

}  // namespace bastion::kernels
