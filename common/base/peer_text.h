// PeerText: makes a text that another process sent fit for logs and for clients. Such a text could
// otherwise fill the log, forge lines of it, or control a terminal. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_PEER_TEXT_H_
#define BASTION_COMMON_BASE_PEER_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace bastion {

inline constexpr size_t kMaxPeerTextBytes = 512;
inline constexpr size_t kMaxPeerNameBytes = 256;

// Replaces what is no printable text of UTF-8 by escapes such as \x1b: control characters, line
// separators of Unicode, characters that change the direction of text, and invalid bytes. If the
// result would have more than `max_bytes` bytes, it ends with "..." and has no more. A text that
// has been through this function stays as it is. REQUIRES: max_bytes >= 3.
[[nodiscard]] std::string PeerText(absl::string_view text, size_t max_bytes = kMaxPeerTextBytes);

// The name of a model or a device that a peer sent.
[[nodiscard]] inline std::string PeerName(absl::string_view name) {
  return PeerText(name, kMaxPeerNameBytes);
}

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PEER_TEXT_H_
