// KV compaction: after acceptance the cache keeps the rows of the root and the accepted path, side
// by side behind the committed tokens; the rest of the tree region is free again.
#ifndef BASTION_VERIFIER_SERVICE_COMMIT_KV_COMPACTION_H_
#define BASTION_VERIFIER_SERVICE_COMMIT_KV_COMPACTION_H_

#include <vector>

#include "common/base/ids.h"
#include "common/nn/device.h"
#include "common/nn/kv_cache.h"

namespace bastion::verifier {

// Which cached tokens go where. Row i of a tree lies at token cached + i; the k-th accepted node
// belongs at token cached + k. Keys carry the rotary angle of cached + depth, which is just that
// position: rows move, they never rotate again.
struct KvMoves {
  std::vector<int64_t> sources;       // [n] slots
  std::vector<int64_t> destinations;  // [n] slots

  // Adds the moves for one sequence; rows already in place add none.
  void Add(const nn::PageTable& table, Position cached, const std::vector<NodeIndex>& path);
};

// Applies `moves` in the first `layers` layers of `cache`.
void CompactKv(const nn::Device& device, const nn::KvCache& cache, int layers,
               const KvMoves& moves);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_COMMIT_KV_COMPACTION_H_
