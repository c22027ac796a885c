// A fixed team of threads for kernels. A step of the engine consists of many short parallel loops.
// During a step, idle workers spin between loops: starting a loop on a spinning worker costs well
// under a microsecond, while waking a sleeping worker costs about ten. Between steps the workers
// sleep and leave their cores to the other services on the machine, because two teams that spin on
// the same two cores starve each other.
//
// Other processes may also use the cores during a step. Each member of the team has a share of a
// loop, divided into pieces. A member that has finished its share takes pieces of the other shares.
// A member that is still asleep, or whose core is busy, therefore delays the loop by one piece, not
// by its whole share.
//
// If the team has exactly one thread per usable core, the pool pins the workers: the caller runs on
// the core that the scheduler chose, and each worker is pinned to one of the other cores. Without
// this, Linux may queue a worker on the caller's core for a whole step while another core is idle,
// because Linux does not search for an idle core if there are few cores and they are busy on
// average.
//
// Thread rule: one thread at a time calls ParallelFor. That thread takes part in the work.
#ifndef BASTION_KERNELS_OPS_THREAD_POOL_H_
#define BASTION_KERNELS_OPS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace bastion::kernels {

class ThreadPool {
 public:
  // Starts a team of `threads` threads, including the caller. REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) on ranges that cover each index of [0, count) once, and returns when all
  // calls have returned. A loop of at most `grain` indices is one range, which the caller runs. In
  // a longer loop, the threads get equal shares, and a share of n indices is divided into at most
  // ceil(n / grain) ranges. If calls throw, the loop rethrows one of the exceptions once no call
  // runs any more; some indices may then have been left out. REQUIRES: the result for an index does
  // not depend on the thread or the range.
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

  // Hint that a step is about to start. Wakes sleeping workers and does not wait for them. From
  // this call or from the first loop, idle workers spin until Rest() or until no loop has run for a
  // while.
  void Wake();
  // Hint that the step is over. Idle workers go to sleep at once. A later loop wakes them again.
  void Rest() { spin_when_idle_.store(false, std::memory_order_relaxed); }

 private:
  struct Loop {
    void (*run)(void* context, int64_t begin, int64_t end) = nullptr;
    void* context = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
  };

  // One member's share of the loop: [begin, end), divided into `pieces` ranges. The first `taken`
  // pieces have been started.
  struct alignas(64) Share {
    int64_t begin = 0, end = 0;
    int pieces = 0;
    std::atomic<int> taken{0};
  };

  static bool IsOpen(uint32_t generation) { return generation % 2 == 1; }
  void Run(const Loop& loop);
  // If the caller has moved to another core, pins the workers to the remaining cores.
  void PinWorkers();
  // Runs pieces until none is left, starting with the member's own share. Keeps an exception for
  // the caller.
  void Work(int member) noexcept;
  void RunPieces(int member);
  // Registers a worker as inside the loop of `generation`. Returns false if that loop is over; then
  // the worker must not access the loop.
  bool Enter(uint32_t generation);
  void WorkerMain(int member);
  uint32_t AwaitNext(uint32_t seen);

  std::vector<std::thread> workers_;
  std::vector<int> cores_;  // One core per member. Empty: workers are not pinned.
  int callers_core_ = -1;   // The caller's core when the workers were pinned.
  // loop_ and shares_ are written only while no loop is open and no worker is inside.
  Loop loop_;
  std::vector<Share> shares_;
  // The first exception of the loop. Written by the member that sets has_error_.
  std::exception_ptr error_;
  std::atomic<bool> has_error_{false};
  alignas(64) std::atomic<uint32_t> generation_{0};  // Odd while a loop is open.
  alignas(64) std::atomic<int> inside_{0};           // Workers that may access the loop.
  alignas(64) std::atomic<uint32_t> doorbell_{0};    // Sleeping workers wait for it to change.
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> spin_when_idle_{false};  // Idle workers spin.
  std::atomic<bool> stopping_{false};
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_THREAD_POOL_H_
