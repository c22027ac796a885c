// SharedChannel: a stream of messages over shared memory, and the carrier of their tensors.
//
// Messages go through the rings of shared_ring.h. A tensor lies in the slot of its message: the
// sender writes it in place and the receiver reads it there. The socket of the handshake is the
// lease: the stream lives while it is open. A waiting thread sleeps until the peer wakes it. If the
// last wait was short, it spins for up to `spin` first; spinning indefinitely would take the core
// from the compute threads.
//
// Threads: one thread may send while another receives. Any thread may cancel.
#ifndef BASTION_COMMON_WIRE_SHARED_CHANNEL_H_
#define BASTION_COMMON_WIRE_SHARED_CHANNEL_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/shm/device_ring.h"
#include "common/shm/shared_ring.h"
#include "common/shm/shared_segment.h"
#include "common/wire/carrier.h"
#include "common/wire/message_stream.h"

namespace bastion::wire {

// One process's end of a stream after the handshake (attach_server.h).
struct SharedEnds {
  Descriptor lease;
  SharedSegment mine;    // This process writes it.
  SharedSegment theirs;  // The peer writes it. As large as `mine`.
  uint32_t epoch = 0;
  std::unique_ptr<DeviceRingEnds> device = nullptr;  // The peer's ring in GPU memory, or null.
};

class SharedChannel final : public Carrier {
 public:
  static constexpr absl::Duration kSpin = absl::Microseconds(50);

  // A wait spins for at most `spin` before it sleeps. Zero: it never spins.
  explicit SharedChannel(SharedEnds ends, absl::Duration spin = kSpin);
  // The peer sees UNAVAILABLE, or the status that End sent.
  ~SharedChannel() override { Cancel(); }

  // As in MessageStream. Other errors: RESOURCE_EXHAUSTED for a message that is larger than half of
  // the ring, and DATA_LOSS if the peer wrote invalid data.
  [[nodiscard]] absl::Status Send(const google::protobuf::MessageLite& message,
                                  absl::Time deadline);
  [[nodiscard]] absl::Status Receive(google::protobuf::MessageLite* message, absl::Time deadline);
  void Cancel();
  // Sends `reason` to the peer and cancels.
  void End(const absl::Status& reason);

  // Moves out the ring in GPU memory that the peer passed in the handshake. Null if there is none,
  // and after the first call.
  [[nodiscard]] std::unique_ptr<DeviceRingEnds> TakeDevice() { return std::move(ends_.device); }

  // As in Carrier. Reserve uses the ring if it has room now, else inline bytes.
  char* Reserve(const TensorShape& shape, TensorRef& reference) override;
  absl::StatusOr<absl::string_view> Get(const TensorRef& reference) override;

 private:
  // Waits until the counter changes. `last` is the duration of the last wait of the same kind;
  // Await updates it.
  [[nodiscard]] absl::Status Await(const CounterWatch& watch, absl::Time deadline,
                                   absl::Duration& last);
  [[nodiscard]] absl::Status Sleep(const CounterWatch& watch, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Not OK after the stream has ended.
  [[nodiscard]] absl::Status CheckLease() ABSL_LOCKS_EXCLUDED(mutex_);
  // Not OK after Cancel. Without this check, a peer that keeps sending would keep this side busy
  // forever.
  [[nodiscard]] absl::Status CheckCanceled() const;
  // Not OK after Cancel or the deadline. Without this check, a peer that keeps changing its counter
  // would keep this side waiting for room forever.
  [[nodiscard]] absl::Status CheckWait(absl::Time deadline) const;

  SharedEnds ends_;
  const absl::Duration spin_;
  RingWriter writer_;
  RingReader reader_;
  absl::Duration last_wait_for_room_, last_wait_for_message_;
  std::string body_;
  InlineCarrier inline_;
  std::atomic<bool> canceled_{false};
  Mutex mutex_;
  absl::Status final_status_ ABSL_GUARDED_BY(mutex_);  // Not OK after the stream has ended.
};

// A MessageStream over a SharedChannel.
template <typename Sent, typename Received>
class SharedStream final : public MessageStream<Sent, Received> {
 public:
  explicit SharedStream(std::shared_ptr<SharedChannel> channel) : channel_(std::move(channel)) {}

  absl::Status Send(const Sent& message, absl::Time deadline) override {
    return channel_->Send(message, deadline);
  }
  absl::Status Receive(Received* message, absl::Time deadline) override {
    return channel_->Receive(message, deadline);
  }
  bool supports_deadlines() const override { return true; }
  void Cancel() override { channel_->Cancel(); }
  Carrier& carrier() override { return *channel_; }

 private:
  const std::shared_ptr<SharedChannel> channel_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SHARED_CHANNEL_H_
