// TransportStats: what the streams of one client to one peer have carried. The counts never
// decrease. Thread-safe.
#ifndef BASTION_COMMON_WIRE_TRANSPORT_STATS_H_
#define BASTION_COMMON_WIRE_TRANSPORT_STATS_H_

#include <atomic>
#include <cstdint>

namespace bastion::wire {

struct TransportStats {
  // Bytes of messages and their tensors. Tensors that stay in GPU memory do not count.
  struct Traffic {
    std::atomic<int64_t> sent{0};
    std::atomic<int64_t> received{0};
  };
  Traffic grpc, shared_memory;

  // Streams that had to use gRPC, by reason: the peer does not offer shared memory, or the
  // handshake failed.
  std::atomic<int64_t> not_offered{0};
  std::atomic<int64_t> handshake_failed{0};
  // Tensors that were sent inside their message because the shared memory had no room.
  std::atomic<int64_t> no_room{0};
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_TRANSPORT_STATS_H_
