// A fixed team of threads for kernels. One step of the engine is many short parallel loops, so idle
// workers spin for a bounded time before they sleep: a loop that follows soon costs well under a
// microsecond to start, and a team with nothing to do costs nothing (two teams that spin without
// bound on two cores would starve each other).
//
// Thread rule: one thread at a time calls ParallelFor; it takes part in the work.
#ifndef BASTION_KERNELS_THREAD_POOL_H_
#define BASTION_KERNELS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace bastion::kernels {

class ThreadPool {
 public:
  // A team of `threads` including the caller. REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) so that the ranges cover [0, count) once; returns when all are done.
  // Contiguous equal shares, one a thread: which thread runs an index never changes what it
  // computes.
  template <typename Body>
  void ParallelFor(int64_t count, Body&& body) {
    if (count <= 1 || workers_.empty()) {
      if (count > 0) body(int64_t{0}, count);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    Run({[](void* context, int64_t begin, int64_t end) {
           (*static_cast<Plain*>(context))(begin, end);
         },
         const_cast<void*>(static_cast<const void*>(&body)), count});
  }

  // Wakes sleeping workers ahead of the loops to come, without waiting for them.
  void Wake();

 private:
  struct Loop {
    void (*run)(void* context, int64_t begin, int64_t end) = nullptr;
    void* context = nullptr;
    int64_t count = 0;
  };

  void Run(const Loop& loop);
  void RunShare(const Loop& loop, int member) const;
  void WorkerMain(int member);
  uint32_t AwaitNext(uint32_t seen);

  std::vector<std::thread> workers_;
  Loop loop_;  // Written before generation_ grows, read after.
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> doorbell_{0};  // What sleepers wait on.
  alignas(64) std::atomic<int> unfinished_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_THREAD_POOL_H_
