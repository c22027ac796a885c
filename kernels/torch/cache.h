// The pages of one layer of the KV cache as tensors.
#ifndef BASTION_KERNELS_TORCH_CACHE_H_
#define BASTION_KERNELS_TORCH_CACHE_H_

#include "kernels/torch/tensors.h"
// After torch.h.
#include <array>

namespace bastion::kernels::torch {

struct Pages {
  // Views the first `count` pages.
  Pages(const KvLayer& cache, int64_t count)
      : keys(View(cache.keys, TypeOf(cache.dtype),
                  {count, cache.kv_heads, cache.head_dim, kPageTokens})),
        values(View(cache.values, TypeOf(cache.dtype),
                    {count, cache.kv_heads, kPageTokens, cache.head_dim})) {}

  at::Tensor keys;    // [pages, G, D, 16]
  at::Tensor values;  // [pages, G, 16, D]
};

// Reads and writes the keys and values of tokens by slot.
class Slots {
 public:
  Slots(const KvLayer& cache, const int64_t* slots, int64_t count)
      : pages_(cache, (RowsSpanned(slots, count) + kPageTokens - 1) / kPageTokens) {
    const at::Tensor all = View(slots, at::kLong, {count});
    page_ = all.floor_divide(kPageTokens);
    offset_ = all.remainder(kPageTokens);
  }

  // [count, G, D]
  [[nodiscard]] at::Tensor Keys() const { return pages_.keys.index(KeyPlaces()); }
  [[nodiscard]] at::Tensor Values() const { return pages_.values.index(ValuePlaces()); }
  // Writes keys and values [count, G, D], rounded to the cache's type.
  void Write(const at::Tensor& keys, const at::Tensor& values) {
    pages_.keys.index_put_(KeyPlaces(), keys.to(pages_.keys.scalar_type()));
    pages_.values.index_put_(ValuePlaces(), values.to(pages_.values.scalar_type()));
  }

 private:
  using Places = std::array<at::indexing::TensorIndex, 4>;
  [[nodiscard]] Places KeyPlaces() const { return {page_, All(), All(), offset_}; }
  [[nodiscard]] Places ValuePlaces() const { return {page_, All(), offset_, All()}; }
  static at::indexing::Slice All() { return {}; }

  Pages pages_;
  at::Tensor page_, offset_;  // [count]
};

}  // namespace bastion::kernels::torch

#endif  // BASTION_KERNELS_TORCH_CACHE_H_
