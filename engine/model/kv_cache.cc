#include "engine/model/kv_cache.h"

namespace bastion::nn {

using kernels::kPageTokens;

KvCache::KvCache(const KvShape& shape, int pages) : PagePool(pages), shape_(shape) {
  const size_t bytes =
      BytesPerElement(shape.dtype) * pages * kPageTokens * shape.kv_heads * shape.head_dim;
  for (int layer = 0; layer < shape.layers; ++layer) {
    keys_.push_back(Buffer::Pages(bytes, Paging::kSmall));
    values_.push_back(Buffer::Pages(bytes, Paging::kSmall));
  }
}

kernels::KvLayer KvCache::layer(int index) const {
  return {shape_.dtype, shape_.kv_heads, shape_.head_dim, keys_[index].data(),
          values_[index].data()};
}

}  // namespace bastion::nn
