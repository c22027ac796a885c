#include "tools/train/loop/text_pool.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "tools/train/models/draws.h"

namespace bastion::train {
namespace {

// Moves `count` of the first `from` elements to the front, drawn uniformly: the first steps of a
// Fisher-Yates shuffle.
void DrawToFront(std::vector<int>& numbers, int count, int from, Draws& draws) {
  for (int i = 0; i < count; ++i) {
    std::swap(numbers[i], numbers[i + draws.Below(from - i)]);
  }
}

}  // namespace

TextPool::TextPool(const TextPoolOptions& options) : options_(options), left_(options.texts) {
  CHECK(options.batch > 0 && options.uses > 0);
  CHECK(2 * options.batch <= options.size && options.size <= options.texts);
  std::vector<int> order(options.texts);
  std::iota(order.begin(), order.end(), 0);
  Draws draws(options.seed, /*step=*/0);
  DrawToFront(order, options.texts, options.texts, draws);
  pool_.assign(order.begin(), order.begin() + options.size);
  waiting_.assign(order.begin() + options.size, order.end());
  for (int i = 0; i < options.size; ++i) left_[pool_[i]] = 1 + i % options.uses;
}

const std::vector<int>& TextPool::Next() {
  Draws draws(options_.seed, static_cast<uint64_t>(++step_));
  DrawToFront(pool_, options_.batch, options_.size - options_.batch, draws);
  drawn_.assign(pool_.begin(), pool_.begin() + options_.batch);
  std::swap_ranges(pool_.begin(), pool_.begin() + options_.batch, pool_.end() - options_.batch);
  Replace();
  return drawn_;
}

void TextPool::Replace() {
  if (waiting_.empty()) return;
  for (auto text = pool_.end() - options_.batch; text != pool_.end(); ++text) {
    if (--left_[*text] > 0) continue;
    waiting_.push_back(std::exchange(*text, waiting_.front()));
    waiting_.pop_front();
    left_[*text] = options_.uses;
  }
}

int PoolSize(std::vector<int64_t> row_counts, int64_t rows) {
  std::sort(row_counts.begin(), row_counts.end(), std::greater<>());
  int size = 0;
  for (const int64_t count : row_counts) {
    rows -= count;
    if (rows < 0) break;
    ++size;
  }
  return size;
}

}  // namespace bastion::train
