// MessageStream: one end of a stream of messages between two services, over gRPC (grpc_stream.h) or
// over shared memory (shared_channel.h). Callers need not know which.
//
// One thread may send while another receives. Any thread may cancel.
#ifndef BASTION_COMMON_WIRE_MESSAGE_STREAM_H_
#define BASTION_COMMON_WIRE_MESSAGE_STREAM_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/carrier.h"

namespace bastion::wire {

// A service ends a stream whose peer makes no room for a message for this long. Peers read messages
// as they arrive, so one that does not is stuck, or its stream is damaged.
inline constexpr absl::Duration kSendLimit = absl::Seconds(10);

template <typename Sent, typename Received>
class MessageStream {
 public:
  virtual ~MessageStream() = default;

  // DEADLINE_EXCEEDED: the message was not sent, and the stream stays open. Any other error: the
  // stream has ended for this reason (UNAVAILABLE: the peer is gone and gave no reason).
  [[nodiscard]] virtual absl::Status Send(const Sent& message, absl::Time deadline) = 0;
  // Waits for the next message. Errors: as for Send.
  [[nodiscard]] virtual absl::Status Receive(Received* message, absl::Time deadline) = 0;
  // False if Send and Receive ignore the deadline and wait as long as needed.
  [[nodiscard]] virtual bool supports_deadlines() const = 0;
  // Ends the stream. Blocked calls of Send and Receive return.
  virtual void Cancel() = 0;

  // Carries the tensors of the next message sent and of the last message received.
  [[nodiscard]] virtual Carrier& carrier() = 0;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_MESSAGE_STREAM_H_
