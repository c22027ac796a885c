// CountedStream: counts the bytes that another stream carries.
#ifndef BASTION_COMMON_WIRE_COUNTED_STREAM_H_
#define BASTION_COMMON_WIRE_COUNTED_STREAM_H_

#include <memory>
#include <utility>

#include "common/wire/message_stream.h"
#include "common/wire/transport_stats.h"

namespace bastion::wire {

// Counts the bytes of tensors that lie outside their message.
class CountedCarrier final : public Carrier {
 public:
  // The pointers must outlive this object. `shared` tells that `inner` has shared memory.
  CountedCarrier(Carrier* inner, bool shared, TransportStats* stats)
      : inner_(*inner),
        shared_(shared),
        stats_(*stats),
        traffic_(shared ? stats->shared_memory : stats->grpc) {}

  char* Reserve(const TensorShape& shape, TensorRef& reference) override {
    char* const room = inner_.Reserve(shape, reference);
    if (reference.carrier_case() == TensorRef::kSlot) {
      traffic_.sent += shape.bytes();
    } else if (shared_) {
      ++stats_.no_room;
    }
    return room;
  }
  absl::StatusOr<absl::string_view> Get(const TensorRef& reference) override {
    absl::StatusOr<absl::string_view> bytes = inner_.Get(reference);
    if (bytes.ok() && reference.carrier_case() == TensorRef::kSlot) {
      traffic_.received += static_cast<int64_t>(bytes->size());
    }
    return bytes;
  }
  [[nodiscard]] TransportStats::Traffic& traffic() { return traffic_; }

 private:
  Carrier& inner_;
  const bool shared_;
  TransportStats& stats_;
  TransportStats::Traffic& traffic_;
};

template <typename Sent, typename Received>
class CountedStream final : public MessageStream<Sent, Received> {
 public:
  using Inner = MessageStream<Sent, Received>;
  // `stats` must outlive this object. `shared`: `inner` is a SharedStream.
  CountedStream(std::unique_ptr<Inner> inner, bool shared, TransportStats* stats)
      : inner_(std::move(inner)), carrier_(&inner_->carrier(), shared, stats) {}

  absl::Status Send(const Sent& message, absl::Time deadline) override {
    const absl::Status sent = inner_->Send(message, deadline);
    if (sent.ok()) carrier_.traffic().sent += static_cast<int64_t>(message.ByteSizeLong());
    return sent;
  }
  absl::Status Receive(Received* message, absl::Time deadline) override {
    const absl::Status received = inner_->Receive(message, deadline);
    if (received.ok()) {
      carrier_.traffic().received += static_cast<int64_t>(message->ByteSizeLong());
    }
    return received;
  }
  bool supports_deadlines() const override { return inner_->supports_deadlines(); }
  void Cancel() override { inner_->Cancel(); }
  Carrier& carrier() override { return carrier_; }

 private:
  const std::unique_ptr<Inner> inner_;
  CountedCarrier carrier_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_COUNTED_STREAM_H_
