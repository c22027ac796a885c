#include "common/nn/page_pool.h"

#include "absl/strings/str_cat.h"

namespace bastion::nn {

PagePool::PagePool(int pages) : total_pages_(pages) {
  for (int page = pages - 1; page >= 0; --page) free_.push_back(page);
}

absl::Status PagePool::Reserve(PageTable& table, int tokens) {
  const int missing = PagesFor(tokens) - static_cast<int>(table.pages.size());
  if (missing > free_pages()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache: ", missing, " more pages of ", kernels::kPageTokens,
                     " tokens are needed, but only ", free_pages(), " of ", total_pages_,
                     " are free; raise --kv_tokens or lower the number of live sequences"));
  }
  for (int i = 0; i < missing; ++i) {
    table.pages.push_back(free_.back());
    free_.pop_back();
  }
  return absl::OkStatus();
}

void PagePool::Shrink(PageTable& table, int tokens) {
  const size_t kept = PagesFor(tokens);
  while (table.pages.size() > kept) {
    free_.push_back(table.pages.back());
    table.pages.pop_back();
  }
}

}  // namespace bastion::nn
