// RemoteDrafter: a Drafter in another process. One stream carries the calls of all sequences, over
// shared memory if both sides support it, else over gRPC. A timeout or a lost stream is an ordinary
// error: the caller decodes without a draft. A call times out when it takes much longer than recent
// ones (CallPatience), at the latest after RemoteOptions::call_timeout.
//
// Info() waits only for the first answer of the drafter. Later it returns the last answer that
// another thread got (PeerWatch), so it never delays a cycle. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_REMOTE_REMOTE_DRAFTER_H_
#define BASTION_ORCHESTRATOR_REMOTE_REMOTE_DRAFTER_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/stages/stages.h"
#include "common/wire/attacher.h"
#include "common/wire/peer_channel.h"
#include "common/wire/step_stream.h"
#include "orchestrator/remote/call_patience.h"
#include "orchestrator/remote/peer_watch.h"
#include "orchestrator/remote/remote_options.h"

namespace bastion {

class RemoteDrafter final : public Drafter {
 public:
  explicit RemoteDrafter(const RemoteOptions& options);

  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId sequence) override;

  // What the streams to the drafter have carried.
  [[nodiscard]] const wire::TransportStats& transport() const { return attacher_.stats(); }

 private:
  // Asks the drafter for its Info(), and stores it.
  [[nodiscard]] absl::StatusOr<EngineActivity> Ask(absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(info_mutex_);

  RemoteOptions options_;
  bool asked_ = false;         // Info() was called.
  bool wants_tokens_ = false;  // DrafterInfo::wants_tokens of the last Info().
  wire::PeerChannel channel_;
  wire::Attacher attacher_;
  wire::StepStream<internal::v1::DrafterRequest, internal::v1::DrafterReply> steps_;
  std::vector<SequenceId> unsent_closes_;
  CallPatience patience_;
  Mutex info_mutex_;
  DrafterInfo info_ ABSL_GUARDED_BY(info_mutex_);
  PeerWatch watch_;  // The last member, because its thread uses the others.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_REMOTE_DRAFTER_H_
