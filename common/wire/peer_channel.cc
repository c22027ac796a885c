#include "common/wire/peer_channel.h"

#include <utility>

#include "common/wire/protocol.h"

namespace bastion::wire {

PeerChannel::PeerChannel(std::string address, std::shared_ptr<const Security> security,
                         const Clock* clock)
    : address_(std::move(address)),
      security_(std::move(security)),
      clock_(clock),
      channel_(ConnectPeer(address_, *security_)) {}

std::shared_ptr<grpc::Channel> PeerChannel::get() const {
  MutexLock lock(&mutex_);
  return channel_;
}

void PeerChannel::Report(const absl::Status& status) {
  std::shared_ptr<grpc::Channel> replaced;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) {
    failing_since_ = std::nullopt;
    return;
  }
  const absl::Duration now = clock_->Now();
  if (!failing_since_) failing_since_ = now;
  if (now - *failing_since_ < kPatience) {
    grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
    return;
  }
  failing_since_ = std::nullopt;
  replaced = std::exchange(channel_, ConnectPeer(address_, *security_));
}

}  // namespace bastion::wire
