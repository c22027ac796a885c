// Paged KV cache in host memory: one pool of pages for all sequences and layers.
//
// A page number refers to kPageTokens tokens in every layer, so one page table per sequence is
// enough for all layers. Layout of a page: kernels/ops/types.h. Thread-compatible.
#ifndef BASTION_ENGINE_MODEL_KV_CACHE_H_
#define BASTION_ENGINE_MODEL_KV_CACHE_H_

#include <vector>

#include "engine/model/buffer.h"
#include "engine/model/page_pool.h"
#include "kernels/ops/types.h"

namespace bastion::nn {

struct KvShape {
  int layers = 0;    // L
  int kv_heads = 0;  // G
  int head_dim = 0;  // D
  DType dtype = DType::kF32;
};

// A page pool and the host memory of its pages.
class KvCache : public PagePool {
 public:
  KvCache(const KvShape& shape, int pages);

  [[nodiscard]] kernels::KvLayer layer(int index) const;

 private:
  KvShape shape_;
  std::vector<Buffer> keys_;    // L x [pages, G, D, 16]
  std::vector<Buffer> values_;  // L x [pages, G, 16, D]
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_KV_CACHE_H_
