// KV compaction: after acceptance, the cache keeps the rows of the root and the accepted path,
// directly after the committed tokens. The tree's other slots become free.
#ifndef BASTION_VERIFIER_SERVICE_COMMIT_KV_COMPACTION_H_
#define BASTION_VERIFIER_SERVICE_COMMIT_KV_COMPACTION_H_

#include <vector>

#include "common/base/ids.h"
#include "engine/model/device.h"
#include "engine/model/kv_cache.h"

namespace bastion::verifier {

// Source and destination slots of the cached tokens to move. Row i of a tree is cached as token
// cached + i; the k-th accepted node belongs at token cached + k. Its key was rotated by position
// cached + depth = cached + k, so a row moves without another rotation.
struct KvMoves {
  std::vector<int64_t> sources;       // [n] slots
  std::vector<int64_t> destinations;  // [n] slots

  // Adds the moves of one sequence. Rows that are already in place add none.
  void Add(const nn::PageTable& table, Position cached, const std::vector<NodeIndex>& path);
};

// Applies `moves` in the first `layers` layers of `cache`.
void CompactKv(const nn::Device& device, const nn::KvCache& cache, int layers,
               const KvMoves& moves);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_COMMIT_KV_COMPACTION_H_
