// Creates both ends of a shared-memory stream in one process, without the handshake.
#ifndef BASTION_TESTS_SUPPORT_SHARED_PAIR_H_
#define BASTION_TESTS_SUPPORT_SHARED_PAIR_H_

#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/wire/shared_channel.h"

namespace bastion::testing {

constexpr uint32_t kTestEpoch = 77;

inline wire::SharedSegment MakeSegment(size_t ring_bytes) {
  auto segment = wire::SharedSegment::Create(wire::kRingStart + ring_bytes);
  CHECK(segment.ok()) << segment.status();
  return *std::move(segment);
}

// Maps `segment` again, like a peer that has received its descriptor.
inline wire::SharedSegment Mapped(const wire::SharedSegment& segment) {
  auto mapped =
      wire::SharedSegment::Map(wire::Descriptor(dup(segment.descriptor())), segment.bytes());
  CHECK(mapped.ok()) << mapped.status();
  return *std::move(mapped);
}

struct SharedPair {
  wire::SharedEnds first, second;
};

inline SharedPair MakeSharedPair(size_t ring_bytes) {
  int sockets[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  wire::SharedSegment one = MakeSegment(ring_bytes), two = MakeSegment(ring_bytes);
  wire::SharedSegment one_mapped = Mapped(one), two_mapped = Mapped(two);
  return {{wire::Descriptor(sockets[0]), std::move(one), std::move(two_mapped), kTestEpoch},
          {wire::Descriptor(sockets[1]), std::move(two), std::move(one_mapped), kTestEpoch}};
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_SHARED_PAIR_H_
