// Pages of a KV cache, handed out to sequences. Where the memory behind them is, on the host or a
// GPU, is another's business.
//
// Not thread-safe: owned by one engine.
#ifndef BASTION_COMMON_NN_PAGE_POOL_H_
#define BASTION_COMMON_NN_PAGE_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/types.h"

namespace bastion::nn {

// The pages of one sequence, in token order. Owned by the sequence, filled by PagePool.
struct PageTable {
  std::vector<int32_t> pages;

  // Slot of token `position`. REQUIRES: the table covers it.
  [[nodiscard]] int64_t slot(int position) const {
    return int64_t{pages[position / kernels::kPageTokens]} * kernels::kPageTokens +
           position % kernels::kPageTokens;
  }
};

// Pages that `tokens` tokens take.
[[nodiscard]] constexpr int PagesFor(int tokens) {
  return (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
}

class PagePool {
 public:
  explicit PagePool(int pages);

  [[nodiscard]] int total_pages() const { return total_pages_; }
  [[nodiscard]] int free_pages() const { return static_cast<int>(free_.size()); }

  // Grows `table` to cover `tokens` tokens. RESOURCE_EXHAUSTED (table unchanged) when pages run
  // out.
  [[nodiscard]] absl::Status Reserve(PageTable& table, int tokens);
  // Gives back the pages past `tokens` tokens.
  void Shrink(PageTable& table, int tokens);

 private:
  int total_pages_;
  std::vector<int32_t> free_;
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_PAGE_POOL_H_
