#include "common/nn/kv_cache.h"

#include "absl/strings/str_cat.h"

namespace bastion::nn {

using kernels::kPageTokens;

KvCache::KvCache(const KvShape& shape, int pages) : shape_(shape), total_pages_(pages) {
  for (int page = pages - 1; page >= 0; --page) free_.push_back(page);
  for (int layer = 0; layer < shape.layers; ++layer) {
    keys_.push_back(NewPages({pages, shape.kv_heads, shape.head_dim, kPageTokens}, shape.dtype,
                             Paging::kSmall));
    values_.push_back(NewPages({pages, shape.kv_heads, kPageTokens, shape.head_dim}, shape.dtype,
                               Paging::kSmall));
  }
}

absl::Status KvCache::Reserve(PageTable& table, int tokens) {
  const int wanted = (tokens + kPageTokens - 1) / kPageTokens;
  const int missing = wanted - static_cast<int>(table.pages.size());
  if (missing > free_pages()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV cache: ", missing, " more pages of ", kPageTokens, " tokens wanted, ", free_pages(),
        " of ", total_pages_, " free; raise --kv-tokens or lower the number of live sequences"));
  }
  for (int i = 0; i < missing; ++i) {
    table.pages.push_back(free_.back());
    free_.pop_back();
  }
  return absl::OkStatus();
}

void KvCache::Shrink(PageTable& table, int tokens) {
  const size_t kept = (tokens + kPageTokens - 1) / kPageTokens;
  while (table.pages.size() > kept) {
    free_.push_back(table.pages.back());
    table.pages.pop_back();
  }
}

kernels::KvLayer KvCache::layer(int index) const {
  return {shape_.dtype, shape_.kv_heads, shape_.head_dim, keys_[index].data_ptr(),
          values_[index].data_ptr()};
}

}  // namespace bastion::nn
