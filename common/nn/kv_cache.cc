#include "common/nn/kv_cache.h"

namespace bastion::nn {

using kernels::kPageTokens;

KvCache::KvCache(const KvShape& shape, int pages) : PagePool(pages), shape_(shape) {
  for (int layer = 0; layer < shape.layers; ++layer) {
    keys_.push_back(NewPages({pages, shape.kv_heads, shape.head_dim, kPageTokens}, shape.dtype,
                             Paging::kSmall));
    values_.push_back(NewPages({pages, shape.kv_heads, kPageTokens, shape.head_dim}, shape.dtype,
                               Paging::kSmall));
  }
}

kernels::KvLayer KvCache::layer(int index) const {
  return {shape_.dtype, shape_.kv_heads, shape_.head_dim, keys_[index].data_ptr(),
          values_[index].data_ptr()};
}

}  // namespace bastion::nn
