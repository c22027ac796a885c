// PagePool: assigns the pages of a KV cache to sequences. It handles page numbers only; the owner
// of the pool allocates the memory, on the host or on a GPU.
//
// Not thread-safe: owned by one engine.
#ifndef BASTION_COMMON_NN_PAGE_POOL_H_
#define BASTION_COMMON_NN_PAGE_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/types.h"

namespace bastion::nn {

// The pages of one sequence, in token order. The sequence owns the table; PagePool changes it.
struct PageTable {
  std::vector<int32_t> pages;

  // The cache slot of the token at `position`. REQUIRES: the table covers it.
  [[nodiscard]] int64_t slot(int position) const {
    return int64_t{pages[position / kernels::kPageTokens]} * kernels::kPageTokens +
           position % kernels::kPageTokens;
  }
};

// Number of pages needed for `tokens` tokens.
[[nodiscard]] constexpr int PagesFor(int tokens) {
  return (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
}

class PagePool {
 public:
  explicit PagePool(int pages);

  [[nodiscard]] int total_pages() const { return total_pages_; }
  [[nodiscard]] int free_pages() const { return static_cast<int>(free_.size()); }

  // Grows `table` until it covers `tokens` tokens. RESOURCE_EXHAUSTED, without changing the table,
  // if too few pages are free.
  [[nodiscard]] absl::Status Reserve(PageTable& table, int tokens);
  // Returns pages of `table` to the pool, except those that `tokens` tokens need.
  void Shrink(PageTable& table, int tokens);

 private:
  int total_pages_;
  std::vector<int32_t> free_;
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_PAGE_POOL_H_
