#include "drafter_service/draft/ranking.h"

#include <algorithm>

#include "common/base/status.h"

namespace bastion::drafter {

absl::StatusOr<std::vector<Marginals>> Ranking::Rank(nn::Step& step, int positions, int candidates,
                                                     bool coupled) {
  nn::Device& device = step.decoder().device();
  const int count = std::min(candidates, step.logits().max_candidates());
  const int rows = step.PaddedWanted(step.wanted_rows());
  const size_t needed = static_cast<size_t>(rows) * count;
  if (needed > capacity_) {
    constexpr char kWhat[] = "a draft's candidates";
    RETURN_IF_ERROR(device.Finish());
    ASSIGN_OR_RETURN(tokens_, device.AllocateOnHost(needed * sizeof(TokenId), kWhat));
    ASSIGN_OR_RETURN(log_probs_, device.AllocateOnHost(needed * sizeof(float), kWhat));
    capacity_ = needed;
  }
  const nn::StepInputs& in = step.inputs();
  step.logits().Rank({rows, in.wanted_used(), coupled ? in.rules() : nullptr, count,
                      tokens_.as<TokenId>(), log_probs_.as<float>(),
                      step.vocabulary().ids.as<TokenId>()});
  RETURN_IF_ERROR(device.Finish());
  const int64_t share = int64_t{positions} * count;
  std::vector<Marginals> all(step.wanted_rows() / positions);
  for (size_t i = 0; i < all.size(); ++i) {
    const TokenId* const tokens = tokens_.as<TokenId>() + static_cast<int64_t>(i) * share;
    const float* const log_probs = log_probs_.as<float>() + static_cast<int64_t>(i) * share;
    all[i].positions = positions;
    all[i].candidates = count;
    all[i].tokens.assign(tokens, tokens + share);
    all[i].log_probs.assign(log_probs, log_probs + share);
  }
  return all;
}

}  // namespace bastion::drafter
