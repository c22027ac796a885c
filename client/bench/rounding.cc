#include "client/bench/rounding.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr uint64_t kSession = uint64_t{7} << 60;  // Nobody else's.
constexpr int kLikeliest = 20;                    // Told of each distribution.

// One target decoding plainly, with log-probabilities.
class PlainDecoder {
 public:
  PlainDecoder(Verifier& verifier, uint64_t session) : verifier_(verifier), id_{session, 0} {}
  ~PlainDecoder() { verifier_.Close(id_); }
  PlainDecoder(const PlainDecoder&) = delete;
  PlainDecoder& operator=(const PlainDecoder&) = delete;

  absl::Status Start(const std::vector<TokenId>& context) {
    SamplingParams sampling;
    sampling.logprobs = kLikeliest;
    RETURN_IF_ERROR(verifier_.Open(id_, sampling));
    cached_ = static_cast<Position>(context.size());
    return verifier_.Prefill({id_, 0, context}).status();
  }
  // The choice after `token`, with its distribution's likeliest tokens.
  absl::StatusOr<Acceptance> Step(TokenId token) {
    ASSIGN_OR_RETURN(VerifyResult result, verifier_.Verify({{id_, cached_++, DraftTree(token)}}));
    RETURN_IF_ERROR(result.outcomes.at(0).status);
    return std::move(result.outcomes[0].acceptance);
  }

 private:
  Verifier& verifier_;
  const SequenceId id_;
  Position cached_ = 0;
};

// Of `token` among the likeliest; what is not told is at most the last of them.
double LogProb(const TokenLogprobs& distribution, TokenId token) {
  for (const auto& [other, log_prob] : distribution.top) {
    if (other == token) return log_prob;
  }
  return distribution.top.back().second;
}

}  // namespace

std::string RoundingError::ToString() const {
  return absl::StrFormat(
      "int8 against bf16: the same likeliest token at %.1f %% of %d positions, "
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
      ASSIGN_OR_RETURN(const Acceptance wanted, reference.Step(token));
      ASSIGN_OR_RETURN(const Acceptance got, other.Step(token));
      token = wanted.next;
      ++error.positions;
      error.same_choice += static_cast<int>(got.next == token);
      error.log_prob_difference +=
          std::abs(LogProb(wanted.logprobs.at(0), token) - LogProb(got.logprobs.at(0), token));
    }
  }
  error.log_prob_difference /= std::max(1, error.positions);
  return error;
}

}  // namespace bastion
