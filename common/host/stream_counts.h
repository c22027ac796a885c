// StreamCounts: what gRPC counts for each connection of this process's servers (its "channelz"). It
// counts a call when its header arrives, before any thread serves it. Thread-compatible.
#ifndef BASTION_COMMON_HOST_STREAM_COUNTS_H_
#define BASTION_COMMON_HOST_STREAM_COUNTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace bastion::wire {

// The form of a peer's address without the escapes of gRPC: "ipv6:[::1]:5000".
[[nodiscard]] std::string NormalPeer(absl::string_view peer);

class StreamCounts {
 public:
  // How many calls of the connection with this address (NormalPeer) have begun and were not
  // answered: they run, or were canceled. nullopt if no server has such a connection.
  [[nodiscard]] std::optional<int64_t> CountUnanswered(const std::string& peer);

 private:
  // Reads the connections of all servers.
  void ReadConnections();
  // Reads some connections of a server, from number `first` on. Returns the next number to read
  // from; -1 if there is none.
  intptr_t ReadPage(intptr_t server, intptr_t first);

  absl::flat_hash_map<std::string, intptr_t> sockets_;  // gRPC's numbers of connections, by peer.
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_STREAM_COUNTS_H_
