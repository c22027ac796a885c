// PeerChannel: the channel to another bastion service. It is replaced by a new one when the peer
// has not answered for seconds. A channel of gRPC 1.51 can be stuck: after bytes of a TLS handshake
// were corrupted, one was still connecting half a minute later, although the peer was reachable.
// Calls that have begun stay on the old channel. Thread-safe.
#ifndef BASTION_COMMON_WIRE_PEER_CHANNEL_H_
#define BASTION_COMMON_WIRE_PEER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/wire/security.h"

namespace bastion::wire {

class PeerChannel {
 public:
  // A channel without an answer for this long is replaced. It is longer than an attempt to connect.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // `clock` must outlive this object.
  PeerChannel(std::string address, std::shared_ptr<const Security> security,
              const Clock* clock = &Clock::Real());

  // The channel for the next call (ConnectPeer).
  [[nodiscard]] std::shared_ptr<grpc::Channel> get() const ABSL_LOCKS_EXCLUDED(mutex_);
  // A stub of `Service` on that channel.
  template <typename Service>
  [[nodiscard]] auto NewStub() const {
    return Service::NewStub(get());
  }
  // Reports the status of an attempt to call the peer. The peer has not answered if it is
  // UNAVAILABLE or DEADLINE_EXCEEDED. Then the next attempt to connect begins at once, for two
  // reasons: the caller has a pause of its own, and gRPC 1.51 waits for a time of the wall clock,
  // so that its pause lasts minutes if the clock is set back by minutes.
  void Report(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string address_;
  const std::shared_ptr<const Security> security_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  // When the first call failed since the last answer, or since the channel was made.
  std::optional<absl::Duration> failing_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_PEER_CHANNEL_H_
