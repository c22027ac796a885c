// Pushes the features of followed sequences to one drafter, as the engine commits them: when the
// orchestrator asks for the next draft they are already there or on their way.
//
// Over shared memory the thread that commits writes the features itself, so that nobody has to be
// woken for it; only what does not fit at once, and all that goes over gRPC, is left to Run(). A
// helper of Run() reads what to follow.
#ifndef BASTION_VERIFIER_SERVICE_SERVE_FEATURE_STREAM_H_
#define BASTION_VERIFIER_SERVICE_SERVE_FEATURE_STREAM_H_

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/wire/message_stream.h"
#include "protos/bastion/internal/v1/stages.pb.h"
#include "verifier_service/commit/feature_store.h"

namespace bastion::verifier {

class FeatureStream {
 public:
  using Stream = wire::MessageStream<internal::v1::FeatureReply, internal::v1::FeatureRequest>;

  FeatureStream(FeatureStore* store, Stream* stream) : store_(store), stream_(stream) {}

  // Returns when the drafter is gone.
  void Run();

 private:
  void ReadRequests() ABSL_LOCKS_EXCLUDED(mutex_);
  // News from the store, on the thread that made it.
  void Heard() ABSL_LOCKS_EXCLUDED(mutex_, pushing_);
  // Waits until there may be something to push; false when the drafter is gone.
  [[nodiscard]] bool AwaitNews() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends what is new of each followed sequence. DEADLINE_EXCEEDED: there was no room for it by
  // then; another error: the drafter is gone.
  [[nodiscard]] absl::Status PushNew(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends rows of one sequence from `next` on and moves it; sets `over` when it cannot be followed.
  [[nodiscard]] absl::Status Push(SequenceId sequence, absl::Time deadline, Position& next,
                                  bool& over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pushing_);

  FeatureStore* const store_;
  Stream* const stream_;
  Mutex pushing_;
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Position> followed_ ABSL_GUARDED_BY(mutex_);  // Next row to send.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;                                   // For Run().
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SERVE_FEATURE_STREAM_H_
