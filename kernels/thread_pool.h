// A fixed team of threads for kernels. One step of the engine is many short parallel loops, so
// workers on watch spin from one loop to the next: to start one costs well under a microsecond,
// where waking a sleeper costs ten. Between steps they rest, and leave their cores to the other
// services of the machine: two teams that spin on the same two cores starve each other.
//
// The cores belong to others during a step too. Each member has a share of a loop, cut in pieces,
// and whoever is done takes pieces of the others': a member that is still asleep, or whose core is
// busy with something else, delays the loop by one piece and not by its share.
//
// A team that fills the cores of its process keeps apart: the caller runs where the scheduler puts
// it, each worker on a core of its own around that. Left alone, Linux may queue a worker behind its
// caller for the length of a step while the next core idles: in a domain of few cores that are busy
// on average it does not look for an idle one.
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

  // Calls body(begin, end) on ranges that cover [0, count) once; returns when all are done. Ranges
  // are of about `grain` indices or more. Which thread runs an index never changes what it
  // computes.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, Body&& body) {
    if (count <= grain || workers_.empty()) {
      if (count > 0) body(int64_t{0}, count);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    Run({[](void* context, int64_t begin, int64_t end) {
           (*static_cast<Plain*>(context))(begin, end);
         },
         const_cast<void*>(static_cast<const void*>(&body)), count, grain});
  }
  template <typename Body>
  void ParallelFor(int64_t count, Body&& body) {
    ParallelFor(count, 1, body);
  }

  // A step begins: wakes sleeping workers ahead of its loops, without waiting for them. They are on
  // watch from here, or from the first loop, until Rest() or until no loop has come for long.
  void Wake();
  // The step is over: workers go to sleep at once. Any later loop wakes them again.
  void Rest() { on_watch_.store(false, std::memory_order_relaxed); }

 private:
  struct Loop {
    void (*run)(void* context, int64_t begin, int64_t end) = nullptr;
    void* context = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
  };

  // One member's part of the loop: [begin, end) in `pieces`, of which `taken` are begun.
  struct alignas(64) Share {
    int64_t begin = 0, end = 0;
    int pieces = 0;
    std::atomic<int> taken{0};
  };

  static bool IsOpen(uint32_t generation) { return generation % 2 == 1; }
  void Run(const Loop& loop);
  // Moves the workers away from the caller's core when it has changed.
  void KeepApart();
  // Runs pieces until none is left, its own first.
  void Work(int member);
  // False when that loop is over: then nothing of it may be touched.
  bool Enter(uint32_t generation);
  void WorkerMain(int member);
  uint32_t AwaitNext(uint32_t seen);

  std::vector<std::thread> workers_;
  std::vector<int> cores_;  // One for each member; empty: the team does not fill them.
  int callers_core_ = -1;   // Which the workers' are arranged around.
  // Both written while no loop is open and nobody is inside.
  Loop loop_;
  std::vector<Share> shares_;
  alignas(64) std::atomic<uint32_t> generation_{0};  // Odd while a loop is open.
  alignas(64) std::atomic<int> inside_{0};           // Workers that may touch it.
  alignas(64) std::atomic<uint32_t> doorbell_{0};    // What sleepers wait on.
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> on_watch_{false};
  std::atomic<bool> stopping_{false};
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_THREAD_POOL_H_
