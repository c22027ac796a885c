// RemoteVerifier: a Verifier in another process (protos/bastion/internal). One stream carries the
// calls of all sequences, over shared memory if both sides support it, else over gRPC.
//
// A lost stream is UNAVAILABLE. The verifier then closes all sequences that were opened through the
// stream. The caller must open them again with a higher epoch.
#ifndef BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_
#define BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_

#include <memory>

#include "common/stages/stages.h"
#include "common/wire/attacher.h"
#include "common/wire/step_stream.h"
#include "orchestrator/remote/remote_options.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"

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

  // What the streams to the verifier have carried.
  [[nodiscard]] const wire::TransportStats& transport() const { return attacher_.stats(); }

 private:
  // Sends `request` and waits for the reply. An error status in the reply becomes the result.
  absl::StatusOr<internal::v1::VerifierReply> Call(internal::v1::VerifierRequest request);

  RemoteOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<internal::v1::VerifierService::Stub> stub_;
  wire::Attacher attacher_;
  wire::StepStream<internal::v1::VerifierRequest, internal::v1::VerifierReply> steps_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_
