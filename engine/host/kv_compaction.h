// The commit on the CPU. KV compaction: after acceptance, the cache keeps the rows of the root and
// the accepted path, directly after the committed tokens. The tree's other slots become free.
#ifndef BASTION_ENGINE_HOST_KV_COMPACTION_H_
#define BASTION_ENGINE_HOST_KV_COMPACTION_H_

#include <vector>

#include "engine/model/device.h"
#include "kernels/ops/rows.h"

namespace bastion::nn {

// Source and destination slots of the cached tokens to move. A key was rotated by position cached +
// depth = cached + k, so the k-th accepted node moves to the slot of row k + 1 without another
// rotation. Rows that are already in place do not move.
struct KvMoves {
  std::vector<int64_t> sources, destinations;  // [n] slots
};
[[nodiscard]] KvMoves MovesOf(const kernels::Rows& rows, const WalkArgs& walk);

// Moves keys and values in all layers and copies the features of the rows that are kept.
void CommitRows(const HostKernels& host, const kernels::Rows& rows, const CommitArgs& args);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_KV_COMPACTION_H_
