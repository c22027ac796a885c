#include "drafter_service/draft/pair_selector.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

constexpr int kPanel = 16;  // Scores that are summed together.

}  // namespace

absl::StatusOr<PairSelector> PairSelector::Open(std::shared_ptr<const hub::Checkpoint> checkpoint,
                                                const hub::ModelConfig& config) {
  PairSelector selector;
  selector.rank_ = config.drafter.dflash.selector_rank;
  const std::vector<int64_t> shape = {config.dims.vocabulary, selector.rank_};
  ASSIGN_OR_RETURN(selector.before_,
                   checkpoint->Tensor("candidate_selector.predecessor_codebook", shape));
  ASSIGN_OR_RETURN(selector.after_,
                   checkpoint->Tensor("candidate_selector.successor_codebook", shape));
  selector.checkpoint_ = std::move(checkpoint);
  return selector;
}

void PairSelector::Load() {
  int i = 0;
  for (hub::TensorView* view : {&before_, &after_}) {
    memory_[i] = nn::Buffer::Pages(view->bytes, nn::Paging::kHuge);
    std::memcpy(memory_[i].data(), view->data, view->bytes);
    view->data = memory_[i++].data();
  }
  checkpoint_.reset();
}

void PairSelector::Row(const hub::TensorView& codebook, TokenId token, float* to) const {
  kernels::ConvertElements({codebook.dtype, codebook.data, 0, codebook.blocks},
                           int64_t{token} * rank_, rank_, DType::kF32, to);
}

bool PairSelector::ScorePosition(const PairBlock& block, int position, const float* state,
                                 Marginals& marginals) const {
  const int count = marginals.candidates, panels = (count + kPanel - 1) / kPanel;
  const TokenId* const here = marginals.tokens.data() + int64_t{position} * count;
  const TokenId* const before = position == 0 ? &block.root : here - count;
  const int rows = position == 0 ? 1 : count;
  static thread_local std::vector<float> row, weights, columns;
  row.resize(rank_);
  weights.resize(static_cast<size_t>(rows) * rank_);
  columns.assign(static_cast<size_t>(panels) * kPanel * rank_, 0);  // [panels, r, kPanel]
  for (int i = 0; i < rows; ++i) {
    float* const to = weights.data() + static_cast<size_t>(i) * rank_;
    Row(before_, before[i], to);
    for (int k = 0; k < rank_; ++k) to[k] *= state[k];
  }
  for (int j = 0; j < count; ++j) {
    Row(after_, here[j], row.data());
    float* const to = columns.data() + size_t{kPanel} * rank_ * (j / kPanel) + j % kPanel;
    for (int k = 0; k < rank_; ++k) to[k * kPanel] = row[k];
  }
  float* const scores = marginals.pair_scores.data() + int64_t{position} * count * count;
  bool finite = true;
  for (int i = 0; i < rows; ++i) {
    const float* const weight = weights.data() + static_cast<size_t>(i) * rank_;
    for (int panel = 0; panel < panels; ++panel) {
      const float* column = columns.data() + size_t{kPanel} * rank_ * panel;
      float sums[kPanel] = {};
      for (int k = 0; k < rank_; ++k, column += kPanel) {
        for (int j = 0; j < kPanel; ++j) sums[j] += weight[k] * column[j];
      }
      for (int j = panel * kPanel; j < std::min(count, (panel + 1) * kPanel); ++j) {
        const float score = sums[j % kPanel] / block.temperature;
        finite &= std::isfinite(score);
        scores[int64_t{i} * count + j] = std::clamp(score, -kMaxPairScore, kMaxPairScore);
      }
    }
  }
  return finite;
}

absl::Status PairSelector::Score(absl::Span<const PairBlock> blocks, const float* states,
                                 kernels::ThreadPool& pool, std::vector<Marginals>& marginals) {
  if (marginals.empty()) return absl::OkStatus();
  const int positions = marginals.front().positions;
  for (Marginals& one : marginals) {
    one.pair_scores.assign(one.tokens.size() * one.candidates, 0);
  }
  std::atomic<bool> finite = true;
  pool.ParallelFor(std::ssize(marginals) * positions, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i / positions;
      if (!ScorePosition(blocks[block], static_cast<int>(i % positions), states + i * rank_,
                         marginals[block])) {
        finite = false;
      }
    }
  });
  if (finite) return absl::OkStatus();
  return absl::InternalError("a pair score of the drafter is not finite");
}

}  // namespace bastion::drafter
