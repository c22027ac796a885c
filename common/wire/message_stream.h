// A stream of messages between two services, seen from one of its ends: over gRPC (grpc_stream.h)
// or over shared memory (shared_channel.h). Who uses one does not know which.
//
// One thread may send while another receives; Cancel from any.
#ifndef BASTION_COMMON_WIRE_MESSAGE_STREAM_H_
#define BASTION_COMMON_WIRE_MESSAGE_STREAM_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/carrier.h"

namespace bastion::wire {

template <typename Sent, typename Received>
class MessageStream {
 public:
  virtual ~MessageStream() = default;

  // OK: on its way. DEADLINE_EXCEEDED: not sent, and the stream lives. Anything else: the stream is
  // over, and why (UNAVAILABLE: the peer went without a word).
  [[nodiscard]] virtual absl::Status Send(const Sent& message, absl::Time deadline) = 0;
  // OK: a message came. Errors as of Send.
  [[nodiscard]] virtual absl::Status Receive(Received* message, absl::Time deadline) = 0;
  // Whether a deadline is kept; else it is not looked at, and Send waits as long as it takes.
  [[nodiscard]] virtual bool keeps_deadlines() const = 0;
  // Ends the stream: whoever waits in it returns.
  virtual void Cancel() = 0;

  // Carries the tensors of the messages: those of the next one sent, those of the last one
  // received.
  [[nodiscard]] virtual Carrier& carrier() = 0;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_MESSAGE_STREAM_H_
