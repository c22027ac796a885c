// Timeline: remembers what a service did in the last seconds, in a ring buffer. Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_TIMELINE_H_
#define BASTION_COMMON_TELEMETRY_TIMELINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"

namespace bastion {

// Something that took time. Slices of a lane nest or follow each other; they never overlap in part.
struct TimelineSlice {
  const char* lane;  // String literals.
  const char* name;
  absl::Duration start;  // On Clock::Real().
  absl::Duration duration;
  int64_t rows = 0;  // Rows or tokens that were processed. 0: not stated.
};

class Timeline {
 public:
  // Slices to remember: about 10 seconds of the fastest cycles.
  static constexpr size_t kCapacity = size_t{1} << 16;

  explicit Timeline(size_t capacity = kCapacity) : capacity_(capacity) {}

  // Adds slices, and forgets the oldest ones if there is no room.
  void Add(absl::Span<const TimelineSlice> slices) ABSL_LOCKS_EXCLUDED(mutex_);
  // The slices that ended after `since`, on Clock::Real(), the first added first.
  [[nodiscard]] std::vector<TimelineSlice> Since(absl::Duration since) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const size_t capacity_;
  mutable Mutex mutex_;
  std::vector<TimelineSlice> ring_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // The oldest slice, once the ring is full.
};

// The slices of consecutive parts of a call, below a slice for the call as a whole. Parts that took
// no time have none. Thread-compatible.
class CallSlices {
 public:
  // The call began at `start`. All slices are in `lane`.
  CallSlices(const char* lane, const char* name, absl::Duration start)
      : slices_{{lane, name, start, absl::ZeroDuration()}}, at_(start) {}

  void set_rows(int64_t rows) { slices_[0].rows = rows; }
  // The next part took `spent`.
  void AddPart(const char* name, absl::Duration spent) {
    if (spent <= absl::ZeroDuration()) return;
    slices_.push_back({slices_[0].lane, name, at_, spent});
    at_ += spent;
  }
  // The call ended at `end`, or when its last part ended if that is later.
  [[nodiscard]] absl::Span<const TimelineSlice> Finish(absl::Duration end) {
    slices_[0].duration = std::max(end, at_) - slices_[0].start;
    return slices_;
  }

 private:
  std::vector<TimelineSlice> slices_;  // The whole call first.
  absl::Duration at_;                  // The end of the last part.
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_TIMELINE_H_
