// PagePool: assigns the pages of a KV cache to sequences. It handles page numbers only; the owner
// of the pool allocates the memory, on the host or on a device.
//
// Several tables may share a page. Its content must not change then. A page whose content is kept
// (prefix_cache.h) holds it after the last table has returned the page, until the page is needed:
// the pool assigns blank pages first, then the kept page that has been unused longest.
//
// Not thread-safe: owned by one engine.
#ifndef BASTION_ENGINE_MODEL_PAGE_POOL_H_
#define BASTION_ENGINE_MODEL_PAGE_POOL_H_

#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops/types.h"

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
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  [[nodiscard]] int total_pages() const { return static_cast<int>(pages_.size()); }
  // Pages that no table holds. Their content may be kept.
  [[nodiscard]] int free_pages() const { return static_cast<int>(blank_.size() + kept_.size()); }

  // Grows `table` until it covers `tokens` tokens. RESOURCE_EXHAUSTED, without changing the table,
  // if too few pages are free.
  [[nodiscard]] absl::Status Reserve(PageTable& table, int tokens);
  // Returns pages of `table` to the pool, except those that `tokens` tokens need.
  void Shrink(PageTable& table, int tokens);

  // ---- kept content ----
  // Sets the function that is called with each page whose content is dropped.
  void OnDrop(std::function<void(int32_t page)> on_drop) { on_drop_ = std::move(on_drop); }
  // Keeps the content of `page` from now on. REQUIRES: a table holds it.
  void Keep(int32_t page) { Update(page, pages_[page].tables, /*kept=*/true); }
  [[nodiscard]] bool keeps(int32_t page) const { return pages_[page].kept; }
  // Appends the kept `page` to `table`.
  void Share(PageTable& table, int32_t page);
  // Drops the content of the kept `page`. Tables that hold the page are not affected.
  void Drop(int32_t page);
  // Drops the content that has been unused longest. Returns false if tables hold all kept pages.
  bool DropOldest();

 private:
  struct Page {
    int tables = 0;  // Tables that hold the page.
    bool kept = false;
    std::list<int32_t>::iterator place;  // In one of the lists below.
  };
  // The list for the state of `page`.
  [[nodiscard]] std::list<int32_t>& ListOf(const Page& page);
  // Changes the state of `page`, and moves it to the end of the list for this state.
  void Update(int32_t page, int tables, bool kept);

  std::vector<Page> pages_;
  std::list<int32_t> held_;   // By tables.
  std::list<int32_t> blank_;  // Free, without kept content.
  std::list<int32_t> kept_;   // Free, with kept content, the longest unused first.
  std::function<void(int32_t)> on_drop_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_PAGE_POOL_H_
