#include "orchestrator/serve/work_limit.h"

#include <algorithm>

#include "common/base/clock.h"
#include "orchestrator/serve/live_request.h"

namespace bastion {
namespace {

// How often a waiting call checks whether its client is gone.
constexpr absl::Duration kClientCheckInterval = absl::Milliseconds(50);

}  // namespace

WorkLimit::WorkLimit(int turns) : free_(std::max(1, turns)) {}

absl::StatusOr<WorkLimit::Turn> WorkLimit::Wait(absl::Duration deadline,
                                                const std::function<bool()>& is_canceled) {
  const auto is_free = [this] {
    mutex_.AssertHeld();
    return free_ > 0;
  };
  for (;;) {
    const absl::Duration left = deadline - Clock::Real().Now();
    if (left <= absl::ZeroDuration()) return LiveRequest::DeadlineError();
    if (is_canceled && is_canceled()) return LiveRequest::CanceledError();
    MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(is_free, std::min(left, kClientCheckInterval))) continue;
    --free_;
    return Turn(this);
  }
}

void WorkLimit::Leave() {
  MutexLock lock(&mutex_);
  ++free_;
}

}  // namespace bastion
