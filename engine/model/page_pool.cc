#include "engine/model/page_pool.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace bastion::nn {

PagePool::PagePool(int pages) : pages_(pages) {
  for (int page = pages - 1; page >= 0; --page) {
    pages_[page].place = blank_.insert(blank_.end(), page);
  }
}

std::list<int32_t>& PagePool::ListOf(const Page& page) {
  if (page.tables > 0) return held_;
  return page.kept ? kept_ : blank_;
}

void PagePool::Update(int32_t page, int tables, bool kept) {
  Page& updated = pages_[page];
  std::list<int32_t>& from = ListOf(updated);
  updated.tables = tables;
  updated.kept = kept;
  std::list<int32_t>& to = ListOf(updated);
  if (&from != &to) to.splice(to.end(), from, updated.place);
}

absl::Status PagePool::Reserve(PageTable& table, int tokens) {
  const int missing = PagesFor(tokens) - static_cast<int>(table.pages.size());
  if (missing > free_pages()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache: ", missing, " more pages of ", kernels::kPageTokens,
                     " tokens are needed, but only ", free_pages(), " of ", total_pages(),
                     " are free; raise --kv_tokens or lower the number of live sequences"));
  }
  for (int i = 0; i < missing; ++i) {
    if (blank_.empty()) (void)DropOldest();
    const int32_t page = blank_.back();
    Update(page, /*tables=*/1, /*kept=*/false);
    table.pages.push_back(page);
  }
  return absl::OkStatus();
}

void PagePool::Shrink(PageTable& table, int tokens) {
  const size_t remaining = PagesFor(tokens);
  // The last page first: it is less likely to be shared again than the pages before it, so its
  // content is dropped before theirs.
  while (table.pages.size() > remaining) {
    const int32_t page = table.pages.back();
    Update(page, pages_[page].tables - 1, pages_[page].kept);
    table.pages.pop_back();
  }
}

void PagePool::Share(PageTable& table, int32_t page) {
  CHECK(pages_[page].kept);
  Update(page, pages_[page].tables + 1, /*kept=*/true);
  table.pages.push_back(page);
}

void PagePool::Drop(int32_t page) {
  CHECK(pages_[page].kept);
  Update(page, pages_[page].tables, /*kept=*/false);
  if (on_drop_) on_drop_(page);
}

bool PagePool::DropOldest() {
  if (kept_.empty()) return false;
  Drop(kept_.front());
  return true;
}

}  // namespace bastion::nn
