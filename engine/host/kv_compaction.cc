#include "engine/host/kv_compaction.h"

#include <cstring>

namespace bastion::nn {

KvMoves MovesOf(const kernels::Rows& rows, const WalkArgs& walk) {
  KvMoves moves;
  for (int b = 0; b < rows.used[1]; ++b) {
    const int first = rows.first_rows[b];
    for (int k = 0; k < walk.results[b].path_length; ++k) {
      const int node = walk.paths[first + k];
      if (node == k + 1) continue;
      moves.sources.push_back(rows.slots[first + node]);
      moves.destinations.push_back(rows.slots[first + k + 1]);
    }
  }
  return moves;
}

void CommitRows(const HostKernels& host, const kernels::Rows& rows, const CommitArgs& args) {
  const KvMoves moves = MovesOf(rows, args.walk);
  const auto count = static_cast<int>(moves.sources.size());
  for (int layer = 0; count > 0 && layer < args.cache->shape().layers; ++layer) {
    host.backend->kv_move(
        {args.cache->layer(layer), moves.sources.data(), moves.destinations.data(), count},
        *host.pool);
  }
  const size_t bytes = Bytes(args.type, args.feature_width);
  const auto keep = [&](int row, int place) {
    std::memcpy(static_cast<char*>(args.kept) + place * bytes,
                static_cast<const char*>(args.features) + row * bytes, bytes);
  };
  for (int b = 0; bytes > 0 && b < rows.used[1]; ++b) {
    const int first = rows.first_rows[b];
    const kernels::WalkResult& walked = args.walk.results[b];
    for (int k = 0; k <= walked.path_length; ++k) {
      keep(k == 0 ? first : first + args.walk.paths[first + k - 1], walked.first_kept + k);
    }
  }
}

}  // namespace bastion::nn
