#include "orchestrator/policy/candidate_source.h"

#include <algorithm>
#include <cmath>

#include "orchestrator/prior/weighted_candidates.h"
#include "orchestrator/tree/draft_rows.h"

namespace bastion {
namespace {

DraftMode ModeOf(const PolicyContext& context) {
  if (context.greedy) return DraftMode::kGreedy;
  return context.policy.coupled() ? DraftMode::kCoupled : DraftMode::kSampled;
}

std::optional<TransitionPrior> PriorFor(Policy::Prior prior, const PriorInputs& inputs) {
  if (prior == Policy::Prior::kNone || inputs.vocabulary == 0) return std::nullopt;
  TransitionPrior::Options options;
  options.vocabulary = inputs.vocabulary;
  options.request = prior != Policy::Prior::kTable;
  if (prior != Policy::Prior::kRequest) {
    options.table = inputs.table;
    options.learned = inputs.learned;
  }
  return std::make_optional<TransitionPrior>(options);
}

// The probability of a token in `list`; 0 if it is not listed.
double ProbabilityIn(const CandidateList& list, TokenId token) {
  for (int rank = 0; rank < list.size; ++rank) {
    if (list.tokens[rank] == token) return std::exp(list.log_scores[rank]);
  }
  return 0;
}

// The kind of counts that raises the score of a token most.
NodeSource StrongestSource(const TokenGains& entry) {
  const auto gain = [&entry](PriorSource first, PriorSource last) {
    return *std::max_element(entry.gains.begin() + static_cast<int>(first),
                             entry.gains.begin() + static_cast<int>(last) + 1);
  };
  const float table = gain(PriorSource::kTableOne, PriorSource::kTableTwo);
  const float learned = gain(PriorSource::kLearnedOne, PriorSource::kLearnedTwo);
  const float request = gain(PriorSource::kRequestOne, PriorSource::kRequestThree);
  if (request > 0 && request >= std::max(table, learned)) return NodeSource::kRequest;
  return learned > table ? NodeSource::kLearned : NodeSource::kTable;
}

}  // namespace

CandidateSource::CandidateSource(const PolicyContext& context)
    : mode_(ModeOf(context)),
      shared_(&context.memory->at(mode_, context.policy.prior())),
      prompt_counts_(&context.memory->prompt_counts()),
      prior_(PriorFor(context.policy.prior(), context.memory->inputs())) {}

std::unique_ptr<Candidates> CandidateSource::FromDraft(CycleDraft& draft, int depth,
                                                       int max_children) const {
  if (!weighs_drafts()) return std::make_unique<DraftCandidates>(draft, depth);
  return std::make_unique<WeightedCandidates>(draft, depth, prior_.has_value() ? &*prior_ : nullptr,
                                              &shared_->draft_weights, max_children);
}

std::unique_ptr<Candidates> CandidateSource::FromPrior(int depth, int max_children) const {
  return std::make_unique<PriorCandidates>(std::min(depth, kPriorDepth), &*prior_,
                                           &shared_->prior_weights, max_children);
}

std::vector<NodeSource> CandidateSource::SourcesOf(const DraftTree& tree,
                                                   const CycleDraft& draft) const {
  std::vector<NodeSource> sources;
  sources.reserve(tree.nodes());
  GainList gains;
  DraftRows rows;
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    const TokenGains* entry = nullptr;
    if (prior_.has_value()) {
      prior_->CollectGains(prior_->TokensBefore(tree, tree.parent(node)), &gains);
      entry = gains.Find(tree.token(node));
    }
    const double drafted =
        ProbabilityIn(rows.At(draft.Find(tree, tree.parent(node))), tree.token(node));
    const bool from_draft = entry == nullptr || drafted >= entry->estimate;
    sources.push_back(from_draft ? NodeSource::kDraft : StrongestSource(*entry));
  }
  return sources;
}

void CandidateSource::AppendPrompt(absl::Span<const TokenId> prompt, const std::string& salt) {
  if (prior_.has_value()) prior_->AppendPrompt(prompt, salt, *prompt_counts_);
}

void CandidateSource::Append(TokenId token) {
  if (prior_.has_value()) prior_->Append(token);
}

void CandidateSource::ObserveChoices(const CycleDraft& draft, bool prior_alone,
                                     absl::Span<const TokenId> chosen) {
  const bool weighed = !draft.empty() && weighs_drafts();
  if ((!weighed && !prior_alone) || !ShouldUpdateWeights()) return;
  if (weighed) {
    WeightedCandidates::UpdateWeights(draft, prior_.has_value() ? &*prior_ : nullptr, chosen,
                                      &shared_->draft_weights);
  }
  if (prior_alone) PriorCandidates::UpdateWeights(*prior_, chosen, &shared_->prior_weights);
}

bool CandidateSource::ShouldUpdateWeights() {
  constexpr int kInitialUpdates = 512, kLaterInterval = 4;
  ++update_chances_;
  if (shared_->weight_updates >= kInitialUpdates && update_chances_ % kLaterInterval != 0) {
    return false;
  }
  ++shared_->weight_updates;
  return true;
}

std::vector<TokenId> ChosenTokens(const DraftTree& tree, const Acceptance& acceptance) {
  std::vector<TokenId> chosen;
  chosen.reserve(acceptance.path.size() + 1);
  for (const NodeIndex node : acceptance.path) chosen.push_back(tree.token(node));
  chosen.push_back(acceptance.next);
  return chosen;
}

}  // namespace bastion
