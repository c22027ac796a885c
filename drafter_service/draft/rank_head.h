// The rank head of SpecBlock (§3.2 and Appendix B): predicts the rank class that the target's token
// will have among the drafter's candidates, for each row. Runs on the host.
//
// Thread-compatible. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_RANK_HEAD_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_RANK_HEAD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/marginals.h"
#include "drafter_service/draft/feature_pair.h"
#include "engine/model/buffer.h"
#include "engine/model/engine_options.h"
#include "kernels/ops/types.h"

namespace bastion::drafter {

class RankHead {
 public:
  // Candidates of a row that the features depend on.
  static constexpr int kTop = 20;
  static constexpr int kClasses = 4;
  static constexpr int kFeatures = 15;

  // No rank head.
  RankHead() = default;
  // Reads rank_head.0 and rank_head.2 of the drafter. The errors of its checkpoint's files.
  [[nodiscard]] static absl::StatusOr<RankHead> Load(const FeaturePair& pair,
                                                     const nn::HostKernels& host);

  [[nodiscard]] bool empty() const { return inner_ == 0; }

  // The logits of the classes of `rows` rows: [rows, 4]. `states` [rows, C] are normed states.
  // Position i of `top`, one after the other, has the kTop most probable tokens of row i.
  [[nodiscard]] std::vector<float> Logits(const float* states, int rows,
                                          const std::vector<Marginals>& top) const;
  // The class with the highest logit of each row.
  [[nodiscard]] static std::vector<uint8_t> Classes(const std::vector<float>& logits);

 private:
  nn::HostKernels host_;
  int width_ = 0;  // C
  int inner_ = 0;
  nn::Buffer first_, second_;  // Packed fp32 matrices [inner, C + 15] and [4, inner]
};

// The features of one row, from the log-probabilities of its `count` most probable tokens: with p~
// the softmax over these tokens, the log p~ of ranks 1 to 10, the gaps between the logits of ranks
// 1 and 2, 1 and 3, 1 and 5, p~ of rank 1, and the entropy of p~ in nats. Features of ranks that do
// not exist are 0.
void RankFeatures(const float* log_probs, int count, float* features);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_RANK_HEAD_H_
