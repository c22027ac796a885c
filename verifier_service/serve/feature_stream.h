// Pushes the features of followed sequences to one drafter, as the engine commits them: when the
// orchestrator asks for the next draft they are already there or on their way.
//
// Two threads: Run() writes, a helper of its own reads what to follow.
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
  // Sends what is new of each followed sequence; false when the drafter is gone.
  [[nodiscard]] bool PushNew() ABSL_LOCKS_EXCLUDED(mutex_);
  // The rows of `sequence` from `next` on that fit one message; none when there are none yet.
  [[nodiscard]] absl::StatusOr<Features> Next(SequenceId sequence, Position next);
  // Sends rows of one sequence from `next` on and moves it; sets `over` when it cannot be followed.
  [[nodiscard]] bool Push(SequenceId sequence, Position& next, bool& over);

  FeatureStore* const store_;
  Stream* const stream_;
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Position> followed_ ABSL_GUARDED_BY(mutex_);  // Next row to send.
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SERVE_FEATURE_STREAM_H_
