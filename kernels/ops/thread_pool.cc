#include "kernels/ops/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/cores.h"

namespace bastion::kernels {
namespace {

// How long an idle worker spins before it sleeps, if Rest() is not called. Longer than the gaps
// between the loops of a step.
constexpr auto kSpinTime = std::chrono::microseconds(200);
// Spins between two reads of the clock: a few µs.
constexpr int kSpinsPerClockRead = 128;
// How many times the caller spins while it waits for workers, before it yields its core. A worker
// may need the core.
constexpr int kSpinsBeforeYield = 600;

// Maximum pieces of one member's share of a loop: enough for other members to take some over.
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
  if (std::vector<int> cores = UsableCores(); static_cast<int>(cores.size()) == threads) {
    cores_ = std::move(cores);
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  Wake();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Wake() {
  PinWorkers();
  // Store only a changed value, because spinning workers constantly read this cache line.
  if (!spin_when_idle_.load(std::memory_order_relaxed))
    spin_when_idle_.store(true, std::memory_order_relaxed);
  if (sleepers_.load() == 0) return;
  doorbell_.fetch_add(1);
  doorbell_.notify_all();
}

void ThreadPool::PinWorkers() {
  const int core = sched_getcpu();
  if (core == callers_core_) return;
  const auto at = std::find(cores_.begin(), cores_.end(), core);
  if (at == cores_.end()) return;
  callers_core_ = core;
  size_t next = at - cores_.begin();
  for (std::thread& worker : workers_) PinThread(cores_[++next % cores_.size()], worker);
}

void ThreadPool::Run(const Loop& loop) {
  loop_ = loop;
  for (int member = 0; member < threads(); ++member) {
    Share& share = shares_[member];
    share.begin = loop.count * member / threads();
    share.end = loop.count * (member + 1) / threads();
    const int64_t pieces = (share.end - share.begin + loop.grain - 1) / loop.grain;
    share.pieces = static_cast<int>(std::min<int64_t>(pieces, kMaxPieces));
    share.taken.store(0, std::memory_order_relaxed);
  }
  // Sequentially consistent with sleepers_: a worker either sees the new generation before it
  // sleeps, or is counted in sleepers_ and woken.
  generation_.fetch_add(1);
  Wake();
  Work(0);
  generation_.fetch_add(1);  // Closes the loop. No further worker can enter it.
  for (int spins = 0; inside_.load() > 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (has_error_.load(std::memory_order_relaxed)) {
    has_error_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::Work(int member) noexcept {
  try {
    RunPieces(member);
  } catch (...) {
    if (!has_error_.exchange(true)) error_ = std::current_exception();
  }
}

void ThreadPool::RunPieces(int member) {
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

// Spins, then sleeps, until a loop other than `seen` is open, and returns its generation. Returns
// `seen` if the pool is being destroyed.
uint32_t ThreadPool::AwaitNext(uint32_t seen) {
  const auto is_new_loop = [&](uint32_t now) { return now != seen && IsOpen(now); };
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + kSpinTime;
    for (int spins = 1; spin_when_idle_.load(std::memory_order_relaxed); ++spins) {
      const uint32_t now = generation_.load(std::memory_order_acquire);
      if (is_new_loop(now)) return now;
      Pause();
      if (spins % kSpinsPerClockRead == 0 && std::chrono::steady_clock::now() > until) break;
    }
    const uint32_t ring = doorbell_.load();
    sleepers_.fetch_add(1);
    if (!is_new_loop(generation_.load()) && !stopping_.load()) doorbell_.wait(ring);
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
