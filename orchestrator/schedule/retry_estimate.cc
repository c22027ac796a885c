#include "orchestrator/schedule/retry_estimate.h"

#include <algorithm>

namespace bastion {
namespace {

constexpr double kNewest = 0.2;  // Weight of the newest interval in the mean.

}  // namespace

void RetryEstimate::RecordStart(absl::Duration now) {
  // Idle time says nothing about the rate.
  if (served_++ == 0) last_end_ = now;
}

void RetryEstimate::RecordEnd(absl::Duration now) {
  interval_ += kNewest * ((now - last_end_) - interval_);
  last_end_ = now;
  refused_ = 0;
  --served_;
}

absl::Duration RetryEstimate::NextDelay(absl::Duration now) {
  // A long time without an end is itself a sign of a low rate.
  const absl::Duration since = served_ > 0 ? now - last_end_ : absl::ZeroDuration();
  return std::clamp(++refused_ * std::max(interval_, since), kShortest, kLongest);
}

}  // namespace bastion
