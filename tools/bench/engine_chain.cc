#include "tools/bench/engine_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/sampling/target_distribution.h"

namespace bastion {
namespace {

// How much of a distribution may be missing because of rounding.
constexpr double kRounding = 1e-3;

// The log-probabilities [V] of a position. FAILED_PRECONDITION if they are not all of them.
absl::StatusOr<std::vector<double>> DraftLogProbs(const CycleDraft::Place& place, int vocabulary) {
  const Marginals& marginals = *place.marginals;
  std::vector<double> log_probs(vocabulary, -std::numeric_limits<double>::infinity());
  double sum = 0;
  for (int rank = 0; rank < marginals.candidates; ++rank) {
    const double value = marginals.log_prob(place.position, rank);
    log_probs[marginals.token(place.position, rank)] = value;
    sum += std::exp(value);
  }
  if (std::abs(sum - 1) <= kRounding) return log_probs;
  return absl::FailedPreconditionError(
      absl::StrCat("the drafter reported ", marginals.candidates, " candidates of probability ",
                   sum, " together; sampling needs its whole distribution: try --device cpu"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineChain>> EngineChain::Open(const ChainStages& stages,
                                                               SequenceId id,
                                                               const ChoiceParams& choice,
                                                               absl::Span<const TokenId> prompt) {
  std::unique_ptr<EngineChain> chain(new EngineChain(stages, id, choice));
  RETURN_IF_ERROR(chain->Start(prompt));
  return chain;
}

EngineChain::~EngineChain() {
  stages_.drafter->Close(id_);
  stages_.verifier->Close(id_);
}

absl::Status EngineChain::Start(absl::Span<const TokenId> prompt) {
  ASSIGN_OR_RETURN(target_, stages_.verifier->Info());
  ASSIGN_OR_RETURN(drafter_, stages_.drafter->Info());
  SamplingParams sampling;
  sampling.prompt_tokens = static_cast<int>(prompt.size());
  sampling.logprobs = target_.dims.vocabulary;
  RETURN_IF_ERROR(stages_.verifier->Open(id_, sampling));
  text_.assign(prompt.begin(), prompt.end());
  if (prompt.size() > 1) {
    RETURN_IF_ERROR(
        stages_.verifier->Prefill({id_, 0, {prompt.begin(), prompt.end() - 1}}).status());
  }
  draft_.set_expands_nodes(drafter_.expands_nodes);
  // One candidate: the pair scores of all candidates could take all memory.
  ASSIGN_OR_RETURN(const Marginals first, Expand({}, 1));
  if (first.pair_scores.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the drafter ", drafter_.model,
                   " scores pairs of tokens; rejection sampling needs one without pair scores"));
}

absl::StatusOr<Marginals> EngineChain::Expand(absl::Span<const TokenId> path, int candidates) {
  Frontier frontier;
  frontier.sequence = id_;
  frontier.committed = committed();
  frontier.root = text_.back();
  frontier.new_tokens.assign(text_.begin() + drafter_has_, text_.end() - 1);
  frontier.paths = {{path.begin(), path.end()}};
  frontier.candidates = candidates;
  frontier.sampling = choice_;
  ASSIGN_OR_RETURN(DraftResult result, stages_.drafter->Expand({frontier}));
  bastion::Draft& draft = result.drafts.at(0);
  RETURN_IF_ERROR(draft.status);
  drafter_has_ = committed();
  Marginals marginals = std::move(draft.marginals.at(0));
  RETURN_IF_ERROR(Annotate(marginals.Validate(target_.dims.vocabulary), "the drafter's marginals"));
  return marginals;
}

absl::StatusOr<std::vector<double>> EngineChain::Draft(absl::Span<const TokenId> drafted) {
  CycleDraft::Place place = draft_.Find(drafted);
  if (!place.known() && (drafted.empty() || drafter_.expands_nodes)) {
    ASSIGN_OR_RETURN(Marginals marginals, Expand(drafted, target_.dims.vocabulary));
    draft_.Add(drafted, std::move(marginals));
    place = draft_.Find(drafted);
  }
  if (!place.known()) return std::vector<double>();
  ASSIGN_OR_RETURN(const std::vector<double> log_probs,
                   DraftLogProbs(place, target_.dims.vocabulary));
  return ChoiceProbabilities(log_probs, choice_);
}

absl::StatusOr<std::vector<double>> EngineChain::Target(absl::Span<const TokenId> accepted) {
  const TokenId token = accepted.empty() ? text_.back() : accepted.back();
  const Position cached = committed() + static_cast<Position>(accepted.size());
  ASSIGN_OR_RETURN(const VerifyResult result,
                   stages_.verifier->Verify({VerifyItem{id_, cached, DraftTree(token)}}, {}));
  RETURN_IF_ERROR(result.outcomes.at(0).status);
  ASSIGN_OR_RETURN(const std::vector<double> log_probs,
                   AllLogProbs(result.outcomes[0].acceptance, target_.dims.vocabulary));
  return ChoiceProbabilities(log_probs, choice_);
}

void EngineChain::Commit(absl::Span<const TokenId> tokens) {
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  draft_.Clear();
  draft_.set_expands_nodes(drafter_.expands_nodes);
}

bool EngineChain::HasRoom(int length) const {
  return committed() + length + 1 < std::min(target_.max_context, drafter_.max_context);
}

}  // namespace bastion
