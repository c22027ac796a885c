#include <cmath>

#include "common/base/random.h"
#include "common/base/status.h"
#include "tools/exactness/log_prob_source.h"
#include "tools/sampling/target_distribution.h"

namespace bastion {
namespace {

class LocalLogProbs final : public LogProbSource {
 public:
  LocalLogProbs(Verifier* verifier, uint64_t first_session)
      : verifier_(verifier), next_session_(first_session) {}

  absl::StatusOr<std::optional<std::pair<double, double>>> LogProbs(
      const std::vector<TokenId>& prefix, std::pair<TokenId, TokenId> tokens) override {
    ASSIGN_OR_RETURN(const std::vector<double> log_probs,
                     NextLogProbs(*verifier_, {next_session_++, 0}, prefix));
    return std::make_pair(log_probs.at(tokens.first), log_probs.at(tokens.second));
  }

 private:
  Verifier* const verifier_;
  uint64_t next_session_;
};

}  // namespace

std::unique_ptr<LogProbSource> MakeLocalLogProbs(Verifier* verifier, uint64_t first_session) {
  return std::make_unique<LocalLogProbs>(verifier, first_session);
}

double ChoiceGap(std::pair<double, double> log_probs, std::pair<TokenId, TokenId> tokens,
                 Position position, const ChoiceParams& choice) {
  if (choice.temperature == 0) return std::abs(log_probs.first - log_probs.second);
  const double noise = KeyedGumbel(choice.seed, position, tokens.first) -
                       KeyedGumbel(choice.seed, position, tokens.second);
  return std::abs((log_probs.first - log_probs.second) / choice.temperature + noise);
}

}  // namespace bastion
