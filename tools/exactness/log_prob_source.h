// LogProbSource and ChoiceGap: how close the target's choice between two tokens was. If these are
// the first tokens in which two texts differ, a small gap means that the texts differ by a rounding
// error.
#ifndef BASTION_TOOLS_EXACTNESS_LOG_PROB_SOURCE_H_
#define BASTION_TOOLS_EXACTNESS_LOG_PROB_SOURCE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/stages.h"

namespace bastion {

// Reads log-probabilities of the target's own distribution, by plain decoding.
class LogProbSource {
 public:
  virtual ~LogProbSource() = default;
  // Log-probabilities of two tokens after `prefix`. Nullopt if the target does not report both.
  [[nodiscard]] virtual absl::StatusOr<std::optional<std::pair<double, double>>> LogProbs(
      const std::vector<TokenId>& prefix, std::pair<TokenId, TokenId> tokens) = 0;
};

// A source that calls `verifier`. Every call uses a new session. Their ids are consecutive,
// starting at `first_session`. REQUIRES: `verifier` outlives the source.
[[nodiscard]] std::unique_ptr<LogProbSource> MakeLocalLogProbs(Verifier* verifier,
                                                               uint64_t first_session);

// A source that calls the orchestrator at `endpoint`, which reports the 100 most likely tokens.
[[nodiscard]] std::unique_ptr<LogProbSource> MakeRemoteLogProbs(const std::string& endpoint);

// |difference| of the values that the keyed choice compares for two tokens at `position`: the
// log-probabilities at temperature 0, else log-probability / temperature + noise. It ignores
// penalties, bias and truncation, so it is only approximate if these affect either token.
[[nodiscard]] double ChoiceGap(std::pair<double, double> log_probs,
                               std::pair<TokenId, TokenId> tokens, Position position,
                               const ChoiceParams& choice);

}  // namespace bastion

#endif  // BASTION_TOOLS_EXACTNESS_LOG_PROB_SOURCE_H_
