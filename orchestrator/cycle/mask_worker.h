// MaskWorker: threads that find the masks of expensive constraints, so that only their own requests
// wait. They leave the cores to the cycle's thread when it needs them. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_CYCLE_MASK_WORKER_H_
#define BASTION_ORCHESTRATOR_CYCLE_MASK_WORKER_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/stages/token_set.h"
#include "orchestrator/cycle/token_constraint.h"

namespace bastion {

// What a constraint allows after the output of its request.
struct FoundMask {
  std::unique_ptr<TokenConstraint> constraint;  // In the state after the output.
  absl::StatusOr<TokenSet> allowed = absl::InternalError("no mask was found");
  absl::Duration spent;  // CPU time.
};

class MaskWorker {
 public:
  // Work of one request. It is dropped if its request releases it before it begins.
  class Job {
   public:
    explicit Job(std::function<FoundMask()> find) : find_(std::move(find)) {}
    [[nodiscard]] bool done() const { return done_; }
    // REQUIRES: done(). Call it once.
    [[nodiscard]] FoundMask Take() { return std::move(found_); }

   private:
    friend class MaskWorker;
    // Never throws.
    void Run();
    void Fail(absl::Status error);

    std::function<FoundMask()> find_;
    FoundMask found_;
    std::atomic<bool> done_{false};
  };

  // The threads start with the first job.
  explicit MaskWorker(int threads) : thread_count_(threads) {}
  // Waits for the jobs that run, and drops the others.
  ~MaskWorker();

  // Begins the job when a thread is free. Jobs begin in the order of these calls.
  [[nodiscard]] std::shared_ptr<Job> Start(std::function<FoundMask()> find)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Main() ABSL_LOCKS_EXCLUDED(mutex_);

  const int thread_count_;
  Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::weak_ptr<Job>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_MASK_WORKER_H_
