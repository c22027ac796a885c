// Paged KV cache: one pool of pages for all sequences and layers, and a page table per sequence.
//
// A page holds kPageTokens tokens of every layer under one number, so a table serves all layers.
// Layout inside a page: kernels/types.h. Thread-compatible.
#ifndef BASTION_COMMON_NN_KV_CACHE_H_
#define BASTION_COMMON_NN_KV_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/nn/tensor.h"
#include "kernels/types.h"

namespace bastion::nn {

struct KvShape {
  int layers = 0;    // L
  int kv_heads = 0;  // G
  int head_dim = 0;  // D
  kernels::DType dtype = kernels::DType::kF32;
};

// The pages of one sequence, in token order. Owned by the sequence, filled by KvCache.
struct PageTable {
  std::vector<int32_t> pages;

  // Slot of token `position`. REQUIRES: the table covers it.
  [[nodiscard]] int64_t slot(int position) const {
    return int64_t{pages[position / kernels::kPageTokens]} * kernels::kPageTokens +
           position % kernels::kPageTokens;
  }
};

class KvCache {
 public:
  KvCache(const KvShape& shape, int pages);

  [[nodiscard]] int total_pages() const { return total_pages_; }
  [[nodiscard]] int free_pages() const { return static_cast<int>(free_.size()); }

  // Grows `table` to cover `tokens` tokens. RESOURCE_EXHAUSTED (table unchanged) when pages run
  // out.
  [[nodiscard]] absl::Status Reserve(PageTable& table, int tokens);
  // Gives back the pages past `tokens` tokens.
  void Shrink(PageTable& table, int tokens);

  [[nodiscard]] kernels::KvLayer layer(int index) const;

 private:
  KvShape shape_;
  int total_pages_;
  std::vector<int32_t> free_;
  std::vector<Tensor> keys_;    // L x [pages, G, D, 16]
  std::vector<Tensor> values_;  // L x [pages, G, 16, D]
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_KV_CACHE_H_
