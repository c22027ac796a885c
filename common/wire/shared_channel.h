// SharedChannel: a stream of messages over shared memory, and the carrier of their tensors.
//
// Messages go through the rings of shared_ring.h, tensors beside them in the same slot: written
// where the peer reads them. The attach socket is the lease: while it is open the peer lives, and
// its end is the stream's. Who waits sleeps and is woken, unless the last wait was so short that it
// pays to look for a moment first: looking all the time would take the core from who computes.
//
// Thread-compatible like MessageStream: one thread sends, one receives, any may cancel.
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

// What two processes share once they have attached (attach.h).
struct SharedEnds {
  Descriptor lease;
  SharedSegment mine;
  SharedSegment theirs;  // As large as `mine`.
  uint32_t epoch = 0;
  std::unique_ptr<DeviceRingEnds> device = nullptr;  // The peer's ring, if it handed one over.
};

class SharedChannel final : public Carrier {
 public:
  static constexpr absl::Duration kSpin = absl::Microseconds(50);

  // `spin`: how long a wait looks, at most, before it sleeps; zero: it sleeps at once.
  explicit SharedChannel(SharedEnds ends, absl::Duration spin = kSpin);
  // The peer sees UNAVAILABLE, unless it was told something else.
  ~SharedChannel() override { Cancel(); }

  // As MessageStream. Also RESOURCE_EXHAUSTED for a message that is larger than half of the ring,
  // and DATA_LOSS when the peer wrote what is not a message.
  [[nodiscard]] absl::Status Send(const google::protobuf::MessageLite& message,
                                  absl::Time deadline);
  [[nodiscard]] absl::Status Receive(google::protobuf::MessageLite* message, absl::Time deadline);
  void Cancel();
  // Cancels, and tells the peer why.
  void End(const absl::Status& reason);

  // The ring that the peer handed over, or null; the first time.
  [[nodiscard]] std::unique_ptr<DeviceRingEnds> TakeDevice() { return std::move(ends_.device); }

  // In the slot if there is room for it now, else inline.
  char* Reserve(const TensorShape& shape, TensorRef& reference) override;
  absl::StatusOr<absl::string_view> Get(const TensorRef& reference) override;

 private:
  // `last`: how long the last wait of this kind took.
  [[nodiscard]] absl::Status Await(const Bell& bell, absl::Time deadline, absl::Duration& last);
  [[nodiscard]] absl::Status Sleep(const Bell& bell, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Not OK once the stream is over.
  [[nodiscard]] absl::Status CheckLease() ABSL_LOCKS_EXCLUDED(mutex_);
  // Not OK once this side cancelled: a peer that goes on sending would keep it busy for ever.
  [[nodiscard]] absl::Status CheckCancelled() const;

  SharedEnds ends_;
  const absl::Duration spin_;
  RingWriter writer_;
  RingReader reader_;
  absl::Duration last_wait_for_room_, last_wait_for_message_;
  std::string body_;
  InlineCarrier inline_;
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  absl::Status over_ ABSL_GUARDED_BY(mutex_);
};

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
  bool keeps_deadlines() const override { return true; }
  void Cancel() override { channel_->Cancel(); }
  Carrier& carrier() override { return *channel_; }

 private:
  const std::shared_ptr<SharedChannel> channel_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SHARED_CHANNEL_H_
