// The Verifier in another process (protos/bastion/internal). One stream for all sequences, over
// shared memory where both sides agree to that, else over gRPC.
//
// A lost stream is UNAVAILABLE; the verifier closes what was opened through it, so after that every
// sequence is opened anew under a higher epoch.
#ifndef BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_
#define BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_

#include <memory>
#include <string>

#include "common/stages/stages.h"
#include "common/wire/attacher.h"
#include "common/wire/step_stream.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"

namespace bastion {

// How long closing a sequence may wait for an earlier message to go out.
inline constexpr absl::Duration kClosePatience = absl::Milliseconds(20);

struct RemoteOptions {
  std::string address;
  absl::Duration patience = absl::Seconds(30);  // For one call.
  wire::CarrierChoice carrier = wire::CarrierChoice::kAuto;
};

class RemoteVerifier final : public Verifier {
 public:
  explicit RemoteVerifier(const RemoteOptions& options);

  absl::StatusOr<TargetInfo> Info() override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override;
  void Close(SequenceId sequence) override;

 private:
  // The reply's own status counts like the call's.
  absl::StatusOr<internal::v1::VerifierReply> Call(internal::v1::VerifierRequest request);

  RemoteOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<internal::v1::VerifierService::Stub> stub_;
  wire::Attacher attacher_;
  wire::StepStream<internal::v1::VerifierRequest, internal::v1::VerifierReply> steps_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_REMOTE_VERIFIER_H_
