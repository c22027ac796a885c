#include "common/telemetry/timeline.h"

namespace bastion {

void Timeline::Add(absl::Span<const TimelineSlice> slices) {
  MutexLock lock(&mutex_);
  for (const TimelineSlice& slice : slices) {
    if (ring_.size() < capacity_) {
      ring_.push_back(slice);
    } else {
      ring_[next_] = slice;
      next_ = (next_ + 1) % capacity_;
    }
  }
}

std::vector<TimelineSlice> Timeline::Since(absl::Duration since) const {
  MutexLock lock(&mutex_);
  std::vector<TimelineSlice> found;
  for (size_t i = 0; i < ring_.size(); ++i) {
    const TimelineSlice& slice = ring_[(next_ + i) % ring_.size()];
    if (slice.start + slice.duration > since) found.push_back(slice);
  }
  return found;
}

}  // namespace bastion
