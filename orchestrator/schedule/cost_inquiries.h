// CostInquiries: lets other threads read the cost model, which belongs to the cycle's thread.
// Header-only. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_COST_INQUIRIES_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_COST_INQUIRIES_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/cost_model.h"

namespace bastion {

class CostInquiries {
 public:
  // Called with the target and the current costs.
  using Read = std::function<void(const TargetInfo&, const CostModel&)>;

  // Waits until the cycle's thread has called `read`. UNAVAILABLE if that takes longer than
  // `timeout`; then `read` is not called any more.
  [[nodiscard]] absl::Status Ask(Read read, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto inquiry = std::make_shared<Inquiry>(Inquiry{std::move(read)});
    MutexLock lock(&mutex_);
    inquiries_.push_back(inquiry);
    const auto answered = [&inquiry] { return inquiry->answered; };
    if (mutex_.AwaitWithTimeout(answered, timeout)) return absl::OkStatus();
    std::erase(inquiries_, inquiry);
    return absl::UnavailableError("the cycle's thread did not answer in time; try again");
  }

  // Answers all calls that wait. Called by the cycle's thread.
  void Answer(const TargetInfo& target, const CostModel& costs) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    for (const std::shared_ptr<Inquiry>& inquiry : inquiries_) {
      inquiry->read(target, costs);
      inquiry->answered = true;
    }
    inquiries_.clear();
  }

 private:
  struct Inquiry {
    Read read;
    bool answered = false;
  };

  Mutex mutex_;
  std::vector<std::shared_ptr<Inquiry>> inquiries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_COST_INQUIRIES_H_
