#include "orchestrator/remote/call_patience.h"

#include <algorithm>

namespace bastion {

absl::Duration CallPatience::For(int64_t work) const {
  if (calls_.size() < kFewest) return longest_;
  absl::Duration slowest;
  for (const Call& call : calls_) {
    const double ratio =
        static_cast<double>(work) / static_cast<double>(std::max<int64_t>(call.work, 1));
    slowest = std::max(slowest, call.time * std::max(1.0, ratio));
  }
  return std::min(doubling_ * std::max(kSlack * slowest, longest_ / kRange), longest_);
}

void CallPatience::Record(int64_t work, absl::Duration time) {
  if (++calls_after_failure_ == kFewest) doubling_ = 1;
  if (calls_.size() < kRecent) {
    calls_.push_back({work, time});
    return;
  }
  calls_[oldest_] = {work, time};
  oldest_ = (oldest_ + 1) % kRecent;
}

void CallPatience::RecordFailure() {
  if (doubling_ < kRange) doubling_ *= 2;
  calls_after_failure_ = 0;
}

}  // namespace bastion
