// How close the target's choice between two tokens was: what tells a fault from rounding.
#ifndef BASTION_CLIENT_EXACTNESS_TOKEN_OPINION_H_
#define BASTION_CLIENT_EXACTNESS_TOKEN_OPINION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/stages.h"

namespace bastion {

// Asks the target, by plain decoding, for log-probabilities of its own distribution.
class TokenOpinion {
 public:
  virtual ~TokenOpinion() = default;
  // Of two tokens after `prefix`; nothing when the target does not tell both.
  [[nodiscard]] virtual absl::StatusOr<std::optional<std::pair<double, double>>> LogProbs(
      const std::vector<TokenId>& prefix, std::pair<TokenId, TokenId> tokens) = 0;
};

// Through the interface of the verify stage, under sessions from `first_session` on. `verifier`
// must outlive it.
[[nodiscard]] std::unique_ptr<TokenOpinion> MakeLocalOpinion(Verifier* verifier,
                                                             uint64_t first_session);

// Through the orchestrator at `endpoint`, which tells the 100 likeliest tokens.
[[nodiscard]] std::unique_ptr<TokenOpinion> MakeRemoteOpinion(const std::string& endpoint);

// Gap between the values that the keyed choice compares for two tokens at `position`: of log-
// probabilities at temperature 0, of log-probability / temperature + noise otherwise. Penalties,
// bias and truncation are not in it: between tokens that those set apart it only hints.
[[nodiscard]] double ChoiceGap(std::pair<double, double> log_probs,
                               std::pair<TokenId, TokenId> tokens, Position position,
                               const ChoiceParams& choice);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_TOKEN_OPINION_H_
