// The pair selector of DFlash 2: scores how well a candidate of a position follows a candidate of
// the position before it. The score of token b after token a is
//   c(a, b) = Σ_k A[a][k] · η[k] · B[b][k],
// with the codebooks A and B of the checkpoint and η, the projected state of b's row. Runs on the
// host.
//
// Not thread-safe. Shape legend: common/base/ids.h; r: factors of a score.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_PAIR_SELECTOR_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_PAIR_SELECTOR_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "common/hub/tensor_view.h"
#include "common/stages/marginals.h"
#include "engine/model/buffer.h"
#include "kernels/ops/thread_pool.h"

namespace bastion::drafter {

// One drafted block.
struct PairBlock {
  TokenId root = 0;       // The predecessor of position 0.
  float temperature = 1;  // Scores are divided by it.
};

class PairSelector {
 public:
  PairSelector() = default;  // No selector.
  // Finds the codebooks in the checkpoint of a drafter with `config`. The errors of
  // Checkpoint::Tensor.
  [[nodiscard]] static absl::StatusOr<PairSelector> Open(
      std::shared_ptr<const hub::Checkpoint> checkpoint, const hub::ModelConfig& config);
  // Copies the codebooks out of the checkpoint, in the type that they have there.
  void Load();

  [[nodiscard]] bool empty() const { return rank_ == 0; }

  // Sets pair_scores of each block's marginals. `states` [B, P, r]: η. INTERNAL if a score is not
  // finite. Scores beyond kMaxPairScore become that. REQUIRES: Load was called; the tokens lie in
  // the vocabulary.
  [[nodiscard]] absl::Status Score(absl::Span<const PairBlock> blocks, const float* states,
                                   kernels::ThreadPool& pool, std::vector<Marginals>& marginals);

 private:
  // A row of a codebook as floats.
  void Row(const hub::TensorView& codebook, TokenId token, float* to) const;
  // Scores a position of a block. Returns false if a score is not finite.
  [[nodiscard]] bool ScorePosition(const PairBlock& block, int position, const float* state,
                                   Marginals& marginals) const;

  int rank_ = 0;                                       // r
  std::shared_ptr<const hub::Checkpoint> checkpoint_;  // Until Load.
  nn::Buffer memory_[2];
  hub::TensorView before_, after_;  // A and B, [V, r]
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_PAIR_SELECTOR_H_
