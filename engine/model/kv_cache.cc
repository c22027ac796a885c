#include "engine/model/kv_cache.h"

#include "common/base/status.h"
#include "engine/model/device.h"

namespace bastion::nn {

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(Device& device, const KvShape& shape,
                                                         int pages) {
  auto cache = std::unique_ptr<KvCache>(new KvCache(shape, pages));
  const kernels::KvLayer page = {shape.dtype, shape.kv_heads, shape.head_dim};
  const size_t bytes =
      Bytes(shape.dtype, static_cast<int64_t>(page.page_elements()) * (int64_t{pages} + 1));
  for (int side = 0; side < 2 * shape.layers; ++side) {
    ASSIGN_OR_RETURN(Buffer memory, device.Allocate(bytes, "the KV cache; lower --kv_tokens"));
    cache->memory_.push_back(std::move(memory));
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    cache->layers_.push_back({shape.dtype, shape.kv_heads, shape.head_dim,
                              cache->memory_[2 * layer].data(),
                              cache->memory_[2 * layer + 1].data()});
  }
  const size_t table = cache->layers_.size() * sizeof(kernels::KvLayer);
  ASSIGN_OR_RETURN(cache->table_, device.Allocate(table, "the table of KV layers"));
  device.Copy(cache->table_.data(), cache->layers_.data(), table);
  RETURN_IF_ERROR(device.Finish());
  return cache;
}

}  // namespace bastion::nn
