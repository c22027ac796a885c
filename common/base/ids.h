// Identifiers, and the legend for the shapes in comments: B sequences, R rows, P draft positions, K
// candidates per position, L layers, H query heads, G kv heads, D head dim, C hidden, I width of
// the feed-forward layer, V vocabulary, F feature width, T cached tokens.
#ifndef BASTION_COMMON_BASE_IDS_H_
#define BASTION_COMMON_BASE_IDS_H_

#include <cstdint>
#include <ostream>
#include <utility>

#include "common/base/strong_index.h"

namespace bastion {

using TokenId = int32_t;   // Index into the target's vocabulary, 0 <= id < V.
using Position = int32_t;  // Absolute position of a token in its sequence, from 0.
// Index of a node in a draft tree; 0 is the root.
using NodeIndex = StrongIndex<struct NodeIndexKind>;

inline constexpr TokenId kNoToken = -1;
inline constexpr NodeIndex kNoNode = -1;

// Identifies the live state of one request. The orchestrator chooses `session` once per request.
// `epoch` increases when the state is rebuilt (after a peer restarts), so that the peer rejects
// late messages for the old state.
struct SequenceId {
  uint64_t session = 0;
  uint32_t epoch = 0;

  friend bool operator==(const SequenceId&, const SequenceId&) = default;
  friend auto operator<=>(const SequenceId&, const SequenceId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SequenceId& id) {
    return H::combine(std::move(h), id.session, id.epoch);
  }
  friend std::ostream& operator<<(std::ostream& out, const SequenceId& id) {
    return out << id.session << '@' << id.epoch;
  }
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_IDS_H_
