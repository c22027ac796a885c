// Features of committed tokens, kept for drafters to read.
//
// The store keeps the whole history of an open sequence, so that a drafter that restarts or
// connects late can build its context. Memory is bounded: if new rows would bring all sequences
// together above `max_bytes`, the store drops the longest history and returns OUT_OF_RANGE for its
// sequence from then on. The sequence is then decoded without drafts, which is slower but does not
// change its output.
//
// For rows that were just committed on a GPU, the store may also hold their position in that GPU's
// ring (common/shm/device_ring.h), until they are overwritten there.
//
// Thread-safe: the engine appends; drafter streams read and wait.
#ifndef BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STORE_H_
#define BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  static constexpr int kBlockRows = 16;  // The tokens of a KV page.

  FeatureStore(DType type, int64_t max_bytes,
               std::shared_ptr<const wire::DeviceRingWriter> ring = nullptr)
      : type_(type), max_bytes_(max_bytes), ring_(std::move(ring)) {}

  void Open(SequenceId sequence, int width) ABSL_LOCKS_EXCLUDED(mutex_);
  // Appends `rows` [n, F], in the store's type. `next` is the token after them, if known. `in_ring`
  // is their position in the ring, if they were written there.
  void Append(SequenceId sequence, absl::Span<const char> rows, TokenId next = kNoToken,
              std::optional<uint64_t> in_ring = std::nullopt) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(SequenceId sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the longest history. Returns its sequence; nullopt if there is no history.
  std::optional<SequenceId> DropLongest() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the histories of all open sequences.
  void DropAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- blocks of KV pages ----
  // Keeps block `index` of the sequence for `page`, until Forget. REQUIRES: the block is full.
  void Keep(SequenceId sequence, int index, int32_t page) ABSL_LOCKS_EXCLUDED(mutex_);
  // Appends the blocks that are kept for `pages` to the sequence, which has no rows yet.
  void Share(SequenceId sequence, absl::Span<const int32_t> pages) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(int32_t page) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if Append can add `bytes` without dropping a history.
  [[nodiscard]] bool Fits(size_t bytes) const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration timeout) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The number of rows in the store. NOT_FOUND and OUT_OF_RANGE as for Read.
  [[nodiscard]] absl::StatusOr<int> Rows(SequenceId sequence) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the memory to write `rows` rows of `width` values to. Called under the store's lock.
  using Place = absl::FunctionRef<char*(DType type, int rows, int width)>;
  // Copies the rows of [first, end) that exist into the memory that `place` returns: as many as fit
  // into `max_bytes`, but at least one. Does not call `place` if there are none. Errors: see Rows.
  struct Copied {
    int rows = 0;
    TokenId next = kNoToken;  // See Features::next.
  };
  [[nodiscard]] absl::StatusOr<Copied> Copy(SequenceId sequence, Position first, Position end,
                                            size_t max_bytes, Place place) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The first rows of [first, end) that are contiguous in the ring and have not been overwritten.
  // `rows` is 0 if there are none. Errors: see Rows.
  struct Located {
    int rows = 0;
    uint64_t position = 0;
    DType type = DType::kF32;
    int width = 0;
    TokenId next = kNoToken;  // See Features::next.
  };
  [[nodiscard]] absl::StatusOr<Located> Locate(SequenceId sequence, Position first,
                                               Position end) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `on_change` after every change, on the thread that made it, until the returned object is
  // destroyed. The callback may read the store. Listen and the object's destructor wait for running
  // callbacks to end.
  [[nodiscard]] std::shared_ptr<void> Listen(std::function<void()> on_change)
      ABSL_LOCKS_EXCLUDED(listeners_mutex_);

  [[nodiscard]] DType type() const { return type_; }
  // The bytes of all blocks. A shared block counts once.
  [[nodiscard]] int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Rows [first, first + rows) of a sequence in the ring.
  struct RingPiece {
    Position first = 0;
    int rows = 0;
    uint64_t position = 0;
  };
  using Block = std::shared_ptr<std::string>;  // [n, F], n <= kBlockRows
  struct History {
    int width = 0;  // F
    size_t row_bytes = 0;
    int rows = 0;
    std::vector<Block> blocks;
    TokenId next = kNoToken;  // See Features::next.
    bool dropped = false;     // The features were dropped to save memory.
    std::deque<RingPiece> in_ring;

    [[nodiscard]] size_t bytes() const { return rows * row_bytes; }
    // Copies rows [first, first + count) to `to`.
    void CopyRows(Position first, int count, char* to) const;
    // `next`, if a reader of the rows before `end` gets the last row. Else kNoToken.
    [[nodiscard]] TokenId NextAt(Position end) const { return end == rows ? next : kNoToken; }
  };

  // Counts the bytes of the block as free if this is its last reference, which the caller drops.
  void Release(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseBlocks(History& history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the history of one sequence for good.
  void Drop(History& history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops a history to make room for other features, and logs that.
  void DropForRoom(History& history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A sequence with the longest history. REQUIRES: there is one.
  [[nodiscard]] std::pair<const SequenceId, History>& Longest()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the longest histories until `bytes` more fit. False if `history` is among them.
  [[nodiscard]] bool MakeRoom(int64_t bytes, History& history)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Appends under the lock. Returns true if anything changed.
  bool AppendRows(SequenceId sequence, absl::Span<const char> rows, TokenId next,
                  std::optional<uint64_t> in_ring) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the ring position of the next `rows` rows, and removes pieces that were overwritten.
  void AddRingPiece(History& history, int rows, uint64_t position) const;
  void NotifyListeners() ABSL_LOCKS_EXCLUDED(mutex_, listeners_mutex_);
  // OK if `sequence` has a history to read from.
  [[nodiscard]] absl::Status Check(SequenceId sequence) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const DType type_;
  const int64_t max_bytes_;
  const std::shared_ptr<const wire::DeviceRingWriter> ring_;
  mutable Mutex mutex_;
  absl::flat_hash_map<SequenceId, History> histories_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int32_t, Block> kept_ ABSL_GUARDED_BY(mutex_);  // By page.
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Mutex listeners_mutex_;
  std::list<std::function<void()>> listeners_ ABSL_GUARDED_BY(listeners_mutex_);
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STORE_H_
