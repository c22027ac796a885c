#include "tools/bench/rounding.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// First session id of this file. No other code of this program uses ids in this range.
constexpr uint64_t kSession = uint64_t{7} << 60;
constexpr int kTopTokens = 20;  // Log-probabilities requested per token.

// Decodes token by token with one target and returns log-probabilities.
class PlainDecoder {
 public:
  PlainDecoder(Verifier& verifier, uint64_t session) : verifier_(verifier), id_{session, 0} {}
  ~PlainDecoder() { verifier_.Close(id_); }
  PlainDecoder(const PlainDecoder&) = delete;
  PlainDecoder& operator=(const PlainDecoder&) = delete;

  absl::Status Start(const std::vector<TokenId>& context) {
    SamplingParams sampling;
    sampling.logprobs = kTopTokens;
    RETURN_IF_ERROR(verifier_.Open(id_, sampling));
    cached_ = static_cast<Position>(context.size());
    return verifier_.Prefill({id_, 0, context}).status();
  }
  // Returns the choice after `token`, with the log-probabilities of the most likely tokens.
  absl::StatusOr<Acceptance> Step(TokenId token) {
    ASSIGN_OR_RETURN(VerifyResult result,
                     verifier_.Verify({{id_, cached_++, DraftTree(token)}}, {}));
    RETURN_IF_ERROR(result.outcomes.at(0).status);
    return std::move(result.outcomes[0].acceptance);
  }

 private:
  Verifier& verifier_;
  const SequenceId id_;
  Position cached_ = 0;
};

// Returns the log-probability of `token`. If `token` is not reported, returns the log-probability
// of the least likely reported token, which is an upper bound.
double LogProb(const TokenLogprobs& distribution, TokenId token) {
  for (const auto& [other, log_prob] : distribution.top) {
    if (other == token) return log_prob;
  }
  return distribution.top.back().second;
}

}  // namespace

std::string RoundingError::ToString() const {
  return absl::StrFormat(
      "int8 vs bf16: same most likely token at %.1f %% of %d positions, "
      "mean |difference| of the chosen token's log-probability %.4f",
      100.0 * same_choice / std::max(1, positions), positions, log_prob_difference);
}

absl::StatusOr<RoundingError> MeasureRounding(Verifier& exact, Verifier& rounded,
                                              const std::vector<BenchPrompt>& prompts, int tokens) {
  RoundingError error;
  for (size_t i = 0; i < prompts.size(); ++i) {
    PlainDecoder reference(exact, kSession + i), other(rounded, kSession + i);
    const std::vector<TokenId> context(prompts[i].tokens.begin(), prompts[i].tokens.end() - 1);
    RETURN_IF_ERROR(reference.Start(context));
    RETURN_IF_ERROR(other.Start(context));
    TokenId token = prompts[i].tokens.back();
    for (int step = 0; step < tokens; ++step) {
      ASSIGN_OR_RETURN(const Acceptance expected, reference.Step(token));
      ASSIGN_OR_RETURN(const Acceptance actual, other.Step(token));
      token = expected.next;
      ++error.positions;
      error.same_choice += static_cast<int>(actual.next == token);
      error.log_prob_difference +=
          std::abs(LogProb(expected.logprobs.at(0), token) - LogProb(actual.logprobs.at(0), token));
    }
  }
  error.log_prob_difference /= std::max(1, error.positions);
  return error;
}

}  // namespace bastion
