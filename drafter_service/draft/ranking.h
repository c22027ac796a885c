// Ranking: turns the logits of a step into marginals.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_RANKING_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_RANKING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/marginals.h"
#include "engine/model/step.h"

namespace bastion::drafter {

class Ranking {
 public:
  // Ranks the `candidates` most probable tokens of each wanted row of the last step, by its rules
  // unless `coupled` is false, and waits. `positions` consecutive rows are one marginal.
  [[nodiscard]] absl::StatusOr<std::vector<Marginals>> Rank(nn::Step& step, int positions,
                                                            int candidates, bool coupled = true);

 private:
  size_t capacity_ = 0;            // R K
  nn::Buffer tokens_, log_probs_;  // [R, K], host memory
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_RANKING_H_
