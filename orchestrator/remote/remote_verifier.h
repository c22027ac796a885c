// RemoteVerifier: a Verifier in another process (protos/bastion/internal). One stream carries the
// calls of all sequences, over shared memory if both sides support it, else over gRPC.
//
// A lost stream is UNAVAILABLE, also if the verifier hangs (PeerWatch). The verifier closes all
// sequences that were opened through the stream. All further calls fail until Info() succeeds, so
// that the caller notices a verifier with another target. Then the caller may open the sequences
// again with a higher epoch.
//
// Stop() may be called from any thread. All else is for one thread.
#ifndef BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_
#define BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/stages/stages.h"
#include "common/wire/attacher.h"
#include "common/wire/peer_channel.h"
#include "common/wire/step_stream.h"
#include "orchestrator/remote/peer_watch.h"
#include "orchestrator/remote/remote_options.h"

namespace bastion {

class RemoteVerifier final : public Verifier {
 public:
  explicit RemoteVerifier(const RemoteOptions& options);

  absl::StatusOr<TargetInfo> Info() override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override;
  void Close(SequenceId sequence) override;
  absl::Status CheckAlive() override;
  void ExpectVerify(absl::Duration predicted) override { watch_.Expect(predicted); }

  // Ends the current call soon, and all further calls at once, with UNAVAILABLE.
  void Stop() { stopped_ = true; }

  // What the streams to the verifier have carried.
  [[nodiscard]] const wire::TransportStats& transport() const { return attacher_.stats(); }

 private:
  // Sends `request` and waits for the reply. An error status in the reply becomes the result.
  absl::StatusOr<internal::v1::VerifierReply> Call(internal::v1::VerifierRequest request);

  // Asks the verifier for its Info(), and stores it.
  [[nodiscard]] absl::StatusOr<EngineActivity> Ask(absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(info_mutex_);
  // UNAVAILABLE if the watch considers the verifier lost, or after Stop().
  [[nodiscard]] absl::Status Watched() const;
  // All further calls fail with `reason` until Info() succeeds.
  absl::Status Lose(const absl::Status& reason);

  RemoteOptions options_;
  const std::string owner_;  // See VerifierRequest.Open.owner.
  wire::PeerChannel channel_;
  wire::Attacher attacher_;
  wire::StepStream<internal::v1::VerifierRequest, internal::v1::VerifierReply> steps_;
  absl::Status lost_;  // Not OK after the verifier was lost, until Info() succeeds.
  std::vector<SequenceId> unsent_closes_;
  std::atomic<bool> stopped_{false};
  Mutex info_mutex_;
  TargetInfo info_ ABSL_GUARDED_BY(info_mutex_);
  PeerWatch watch_;  // The last member, because its thread uses the others.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_
