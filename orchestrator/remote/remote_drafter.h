// The Drafter in another process, as RemoteVerifier. Late and lost calls are ordinary answers (the
// caller decodes plainly).
#ifndef BASTION_ORCHESTRATOR_REMOTE_REMOTE_DRAFTER_H_
#define BASTION_ORCHESTRATOR_REMOTE_REMOTE_DRAFTER_H_

#include <memory>
#include <vector>

#include "common/stages/stages.h"
#include "common/wire/attacher.h"
#include "common/wire/step_stream.h"
#include "orchestrator/remote/remote_verifier.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"

namespace bastion {

class RemoteDrafter final : public Drafter {
 public:
  explicit RemoteDrafter(const RemoteOptions& options);

  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId sequence) override;

 private:
  RemoteOptions options_;
  bool wants_tokens_ = false;  // As the drafter's last info said.
  std::unique_ptr<internal::v1::DrafterService::Stub> stub_;
  wire::Attacher attacher_;
  wire::StepStream<internal::v1::DrafterRequest, internal::v1::DrafterReply> steps_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_REMOTE_DRAFTER_H_
