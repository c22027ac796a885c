// The options of RemoteVerifier and RemoteDrafter. Plain data.
#ifndef BASTION_ORCHESTRATOR_REMOTE_REMOTE_OPTIONS_H_
#define BASTION_ORCHESTRATOR_REMOTE_REMOTE_OPTIONS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/wire/attacher.h"
#include "common/wire/security.h"

namespace bastion {

// A Close does not wait for a reply. Its message is sent later if an earlier message blocks the
// stream for longer than this.
inline constexpr absl::Duration kCloseTimeout = absl::Milliseconds(20);

struct RemoteOptions {
  std::string address;                             // gRPC address of the peer.
  absl::Duration peer_timeout = absl::Seconds(1);  // See PeerWatch.
  // PeerWatch ends a call to a lost peer much earlier. A large model may need a minute for a call.
  absl::Duration call_timeout = absl::Minutes(10);
  wire::CarrierChoice carrier = wire::CarrierChoice::kAuto;
  std::shared_ptr<const wire::Security> security = wire::Security::None();
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_REMOTE_OPTIONS_H_
