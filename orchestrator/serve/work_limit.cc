#include "orchestrator/serve/work_limit.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "common/base/clock.h"
#include "orchestrator/serve/live_request.h"

namespace bastion {
namespace {

// How often a waiting call checks whether its client is gone.
constexpr absl::Duration kClientCheckInterval = absl::Milliseconds(50);

}  // namespace

WorkLimit::WorkLimit(int turns, size_t bytes) : max_turns_(turns), max_bytes_(bytes) {}

absl::StatusOr<WorkLimit::Turn> WorkLimit::Wait(size_t bytes, absl::Duration deadline,
                                                const std::function<bool()>& is_canceled) {
  MutexLock lock(&mutex_);
  const auto place = waiting_.insert(waiting_.end(), bytes);
  const auto leave_place = absl::MakeCleanup([&] {
    mutex_.AssertHeld();
    waiting_.erase(place);
  });
  const auto may_work = [&] {
    mutex_.AssertHeld();
    if (place != waiting_.begin()) return false;
    return turns_ == 0 || (turns_ < max_turns_ && bytes_ + bytes <= max_bytes_);
  };
  for (;;) {
    const absl::Duration left = deadline - Clock::Real().Now();
    if (left <= absl::ZeroDuration()) return LiveRequest::DeadlineError();
    if (is_canceled && is_canceled()) return LiveRequest::CanceledError();
    if (!mutex_.AwaitWithTimeout(may_work, std::min(left, kClientCheckInterval))) continue;
    ++turns_;
    bytes_ += bytes;
    return Turn(this, bytes);
  }
}

void WorkLimit::Leave(size_t bytes) {
  MutexLock lock(&mutex_);
  --turns_;
  bytes_ -= bytes;
}

}  // namespace bastion
