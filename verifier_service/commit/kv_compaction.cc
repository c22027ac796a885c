#include "verifier_service/commit/kv_compaction.h"

namespace bastion::verifier {

void KvMoves::Add(const nn::PageTable& table, Position cached, const std::vector<NodeIndex>& path) {
  for (size_t k = 0; k < path.size(); ++k) {
    const auto place = static_cast<NodeIndex>(k) + 1;
    if (path[k] == place) continue;
    sources.push_back(table.slot(cached + path[k]));
    destinations.push_back(table.slot(cached + place));
  }
}

void CompactKv(const nn::Device& device, const nn::KvCache& cache, int layers,
               const KvMoves& moves) {
  const int count = static_cast<int>(moves.sources.size());
  if (count == 0) return;
  for (int layer = 0; layer < layers; ++layer) {
    device.backend->kv_move(
        {cache.layer(layer), moves.sources.data(), moves.destinations.data(), count}, *device.pool);
  }
}

}  // namespace bastion::verifier
