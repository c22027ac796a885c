// Features of committed tokens, kept for drafters to read.
//
// The whole history of a live sequence stays here, so that a drafter that comes late (it was
// restarted, or the request began without it) can build its context. Memory is bounded: past
// `max_bytes` the sequence that grew loses its history and answers OUT_OF_RANGE from then on, which
// costs speed (plain decode), never an answer.
//
// Thread-safe: the engine appends, drafter streams read and wait.
#ifndef BASTION_VERIFIER_SERVICE_COMMIT_FEATURE_STORE_H_
#define BASTION_VERIFIER_SERVICE_COMMIT_FEATURE_STORE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/tree/features.h"

namespace bastion::verifier {

class FeatureStore final : public FeatureSource {
 public:
  FeatureStore(FeatureType type, int64_t max_bytes) : type_(type), max_bytes_(max_bytes) {}

  void Open(SequenceId sequence, int width) ABSL_LOCKS_EXCLUDED(mutex_);
  // Rows [rows] of `features` [R, F] follow those already there, and `next` follows them if known.
  void Append(SequenceId sequence, const float* features, absl::Span<const int> rows,
              TokenId next = kNoToken) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(SequenceId sequence) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration patience) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Rows there are; NOT_FOUND or OUT_OF_RANGE as Read.
  [[nodiscard]] absl::StatusOr<int> Rows(SequenceId sequence) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes of one row of `sequence`; at least 1.
  [[nodiscard]] size_t row_bytes(SequenceId sequence) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until anything changed since the call that returned `seen` (0 at first), or `patience` is
  // over; returns what to pass next. Touch() counts as a change.
  [[nodiscard]] uint64_t AwaitChange(uint64_t seen, absl::Duration patience)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Touch() ABSL_LOCKS_EXCLUDED(mutex_);

  [[nodiscard]] int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct History {
    Features features;
    bool lost = false;  // Dropped for memory.
  };

  // OK when `sequence` has a history to read from.
  [[nodiscard]] absl::Status Check(SequenceId sequence) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const FeatureType type_;
  const int64_t max_bytes_;
  mutable Mutex mutex_;
  absl::flat_hash_map<SequenceId, History> histories_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_COMMIT_FEATURE_STORE_H_
