#include "engine/model/row_batch.h"

#include <utility>

#include "common/base/check.h"

namespace bastion::nn {

kernels::AttentionSpan& RowBatch::AddSpan(const RowSpan& span, const std::vector<TokenId>& tokens) {
  kernels::AttentionSpan& added = spans_.emplace_back();
  added.first_row = rows();
  added.rows = static_cast<int>(tokens.size());
  added.cached = span.cached;
  added.earlier = span.earlier;
  added.pages = span.table->pages.data();
  added.mask = span.mask;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  slots_.resize(tokens_.size());
  positions_.resize(tokens_.size());
  for (int i = 0; i < added.rows; ++i) {
    slots_[added.first_row + i] = span.table->slot(span.cached + span.earlier + i);
  }
  return added;
}

void RowBatch::AddRun(const RowSpan& span, const std::vector<TokenId>& tokens) {
  CHECK(span.mask != kernels::RowMask::kAncestors) << "a run has no ancestor bits";
  CHECK_EQ(span.earlier, 0);
  const kernels::AttentionSpan& added = AddSpan(span, tokens);
  for (int i = 0; i < added.rows; ++i) {
    positions_[added.first_row + i] =
        span.first_position() + i / span.rows_per_token + i % span.rows_per_token;
  }
}

void RowBatch::AddTree(const RowSpan& span, const std::vector<TokenId>& tokens,
                       const std::vector<int>& depths, std::vector<uint64_t> ancestors) {
  CHECK_EQ(depths.size(), tokens.size());
  kernels::AttentionSpan& added = AddSpan(span, tokens);
  added.mask = kernels::RowMask::kAncestors;
  added.words = static_cast<int>(ancestors.size()) / added.rows;
  added.ancestors = ancestors_.emplace_back(std::move(ancestors)).data();
  for (int i = 0; i < added.rows; ++i) {
    positions_[added.first_row + i] = span.first_position() + depths[i];
  }
}

}  // namespace bastion::nn
