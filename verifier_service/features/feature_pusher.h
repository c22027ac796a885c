// FeaturePusher: pushes the features of followed sequences to one drafter as the engine commits
// them. By the time the orchestrator requests the next draft, the features have arrived or are on
// their way.
//
// Over shared memory, the committing thread writes the features itself, so no thread has to wake
// up. Run() sends the rest: rows that did not fit immediately, and all rows over gRPC. A second
// thread, started by Run(), receives the requests to follow or unfollow sequences. A drafter on the
// same GPU gets the position of the rows in the GPU's ring instead of their bytes, until the rows
// are overwritten.
//
// The drafter grants credit: it says up to which row it has room. Rows beyond wait in the store.
#ifndef BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_PUSHER_H_
#define BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_PUSHER_H_

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/base/mutex.h"
#include "common/wire/message_stream.h"
#include "verifier_service/features/feature_store.h"

namespace bastion::verifier {

class FeaturePusher {
 public:
  using Stream = wire::MessageStream<internal::v1::FeatureReply, internal::v1::FeatureRequest>;

  // `ring` is the ring that the drafter has mapped. Null: the drafter gets only bytes.
  // The drafter may not let a message wait for longer than `send_limit`.
  FeaturePusher(FeatureStore* store, Stream* stream, const wire::DeviceRingWriter* ring = nullptr,
                absl::Duration send_limit = wire::kSendLimit)
      : store_(store), stream_(stream), ring_(ring), send_limit_(send_limit) {}

  // Returns when the drafter has disconnected, or let a message wait for too long.
  void Run();

 private:
  // Where to continue in a followed sequence.
  struct Place {
    Position next = 0;          // Next row to send.
    Position bytes_before = 0;  // Rows before this one are sent as bytes.
    uint64_t follow = 0;        // Number of the request to follow.
    Position end = 0;           // Rows from this one on must not be sent.

    // True if both answer the same request and have sent the same rows. The credit may differ.
    [[nodiscard]] bool Matches(const Place& other) const {
      return next == other.next && bytes_before == other.bytes_before && follow == other.follow;
    }
  };

  // The reader's thread.
  void ReadRequests() ABSL_LOCKS_EXCLUDED(mutex_);
  // Handles requests until the stream ends. Ends it if there are too many sequences.
  void FollowRequests() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns how many sequences are followed.
  size_t Handle(const internal::v1::FeatureRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // The store's callback: sends what changed, on the thread that changed it.
  void PushFromEngine() ABSL_LOCKS_EXCLUDED(mutex_, pushing_);
  // Waits until there may be something to push. Returns false if the drafter has disconnected.
  [[nodiscard]] bool AwaitChange() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends the new rows of each followed sequence. DEADLINE_EXCEEDED: the stream stayed full for
  // `patience`. Another error: the drafter has disconnected.
  [[nodiscard]] absl::Status PushNew(absl::Duration patience)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends rows of one sequence from `place` on and advances `place`. Sets `ended` if the sequence
  // can no longer be followed.
  [[nodiscard]] absl::Status Push(SequenceId sequence, absl::Duration patience, Place& place,
                                  bool& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_);
  // Puts rows from `place` on into `reply`, as bytes or as their position in the ring. Returns the
  // number of rows.
  [[nodiscard]] absl::StatusOr<int> Fill(SequenceId sequence, const Place& place,
                                         internal::v1::FeatureReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_);

  FeatureStore* const store_;
  Stream* const stream_;
  const wire::DeviceRingWriter* const ring_;
  const absl::Duration send_limit_;
  Mutex pushing_;  // Held by the thread that sends.
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Place> followed_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // Run() has something to send.
  bool disconnected_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_PUSHER_H_
