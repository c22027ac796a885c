// Pushes the features of followed sequences to one drafter, as the engine commits them: when the
// orchestrator asks for the next draft they are already there or on their way.
//
// Over shared memory the thread that commits writes the features itself, so that nobody has to be
// woken for it; only what does not fit at once, and all that goes over gRPC, is left to Run(). A
// helper of Run() reads what to follow. A drafter on the same GPU is told where in the GPU's ring
// rows lie instead, for as long as they do.
#ifndef BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STREAM_H_
#define BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STREAM_H_

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/wire/message_stream.h"
#include "protos/bastion/internal/v1/stages.pb.h"
#include "verifier_service/features/feature_store.h"

namespace bastion::verifier {

class FeatureStream {
 public:
  using Stream = wire::MessageStream<internal::v1::FeatureReply, internal::v1::FeatureRequest>;

  // `ring`: the one that the drafter has mapped; null: it wants bytes.
  FeatureStream(FeatureStore* store, Stream* stream, const wire::DeviceRingWriter* ring = nullptr)
      : store_(store), stream_(stream), ring_(ring) {}

  // Returns when the drafter is gone.
  void Run();

 private:
  // Where to go on in a followed sequence.
  struct Place {
    Position next = 0;          // Row to send.
    Position bytes_before = 0;  // Rows before this one go as bytes.

    friend bool operator==(const Place&, const Place&) = default;
  };

  void ReadRequests() ABSL_LOCKS_EXCLUDED(mutex_);
  // News from the store, on the thread that made it.
  void Heard() ABSL_LOCKS_EXCLUDED(mutex_, pushing_);
  // Waits until there may be something to push; false when the drafter is gone.
  [[nodiscard]] bool AwaitNews() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends what is new of each followed sequence. DEADLINE_EXCEEDED: there was no room for it by
  // then; another error: the drafter is gone.
  [[nodiscard]] absl::Status PushNew(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends rows of one sequence from `place` on and moves it; sets `over` when it cannot be
  // followed.
  [[nodiscard]] absl::Status Push(SequenceId sequence, absl::Time deadline, Place& place,
                                  bool& over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_);
  // Puts rows from `place` on into `reply`, as bytes or as their place in the ring; how many.
  [[nodiscard]] absl::StatusOr<int> Fill(SequenceId sequence, const Place& place,
                                         internal::v1::FeatureReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_);

  FeatureStore* const store_;
  Stream* const stream_;
  const wire::DeviceRingWriter* const ring_;
  Mutex pushing_;
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Place> followed_ ABSL_GUARDED_BY(mutex_);
  bool news_ ABSL_GUARDED_BY(mutex_) = false;  // For Run().
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_FEATURE_STREAM_H_
