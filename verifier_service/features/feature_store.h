// Features of committed tokens, kept for drafters to read.
//
// The whole history of a live sequence stays here, so that a drafter that comes late (it was
// restarted, or the request began without it) can build its context. Memory is bounded: past
// `max_bytes` the sequence that grew loses its history and answers OUT_OF_RANGE from then on, which
// costs speed (plain decode), never an answer.
//
// Of rows that were just committed on a GPU it may also know where they lie in that GPU's ring
// (common/shm/device_ring.h), until they are overwritten there.
//
// Thread-safe: the engine appends, drafter streams read and wait.
#ifndef BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STORE_H_
#define BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/shm/device_ring.h"
#include "common/stages/features.h"

namespace bastion::verifier {

class FeatureStore final : public FeatureSource {
 public:
  FeatureStore(DType type, int64_t max_bytes,
               std::shared_ptr<const wire::DeviceRingWriter> ring = nullptr)
      : type_(type), max_bytes_(max_bytes), ring_(std::move(ring)) {}

  void Open(SequenceId sequence, int width) ABSL_LOCKS_EXCLUDED(mutex_);
  // `rows` [n, F] in the store's type follow those already there, and `next` follows them if known.
  // `in_ring`: where they lie in the ring, if they do.
  void Append(SequenceId sequence, absl::Span<const char> rows, TokenId next = kNoToken,
              std::optional<uint64_t> in_ring = std::nullopt) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(SequenceId sequence) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration patience) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Rows there are; NOT_FOUND or OUT_OF_RANGE as Read.
  [[nodiscard]] absl::StatusOr<int> Rows(SequenceId sequence) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Where to write `rows` rows of `width` values. Called under the store's lock.
  using Place = absl::FunctionRef<char*(DType type, int rows, int width)>;
  // Copies the rows from `first` on that fit `most_bytes`, and one in any case, to where `place`
  // wants them, which is not asked when there are none. Errors: Rows.
  struct Copied {
    int rows = 0;
    TokenId next = kNoToken;  // As in Features.
  };
  [[nodiscard]] absl::StatusOr<Copied> Copy(SequenceId sequence, Position first, size_t most_bytes,
                                            Place place) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The rows from `first` on that lie in the ring in one piece and were not overwritten; none of
  // them, `rows` is 0. Errors: Rows.
  struct Located {
    int rows = 0;
    uint64_t position = 0;
    DType type = DType::kF32;
    int width = 0;
    TokenId next = kNoToken;  // As in Features.
  };
  [[nodiscard]] absl::StatusOr<Located> Locate(SequenceId sequence, Position first) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `heard` after every change, on the thread that made it, for as long as the returned
  // object lives. It may read the store; Listen and the object's end wait for calls of listeners to
  // end.
  [[nodiscard]] std::shared_ptr<void> Listen(std::function<void()> heard)
      ABSL_LOCKS_EXCLUDED(listeners_mutex_);

  [[nodiscard]] DType type() const { return type_; }
  [[nodiscard]] int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Rows [first, first + rows) of a sequence in the ring.
  struct RingPiece {
    Position first = 0;
    int rows = 0;
    uint64_t position = 0;
  };
  struct History {
    Features features;
    bool lost = false;  // Dropped for memory.
    std::deque<RingPiece> in_ring;
  };

  // Appends under the lock; whether anything changed.
  bool AppendRows(SequenceId sequence, absl::Span<const char> rows, TokenId next,
                  std::optional<uint64_t> in_ring) ABSL_LOCKS_EXCLUDED(mutex_);
  // Remembers where the next `rows` rows lie, and forgets what was overwritten.
  void NotePiece(History& history, int rows, uint64_t position) const;
  void TellListeners() ABSL_LOCKS_EXCLUDED(mutex_, listeners_mutex_);
  // OK when `sequence` has a history to read from.
  [[nodiscard]] absl::Status Check(SequenceId sequence) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const DType type_;
  const int64_t max_bytes_;
  const std::shared_ptr<const wire::DeviceRingWriter> ring_;
  mutable Mutex mutex_;
  absl::flat_hash_map<SequenceId, History> histories_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Mutex listeners_mutex_;
  std::list<std::function<void()>> listeners_ ABSL_GUARDED_BY(listeners_mutex_);
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STORE_H_
