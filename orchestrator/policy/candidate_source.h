// CandidateSource: makes the candidates of one request, from its drafts, from its transition
// prior, or from both. Owns the prior, and learns how much each counts. Used by all policies.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_CANDIDATE_SOURCE_H_
#define BASTION_ORCHESTRATOR_POLICY_CANDIDATE_SOURCE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/policy/node_source.h"
#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/prior/transition_prior.h"
#include "orchestrator/tree/candidates.h"
#include "orchestrator/tree/cycle_draft.h"

namespace bastion {

class CandidateSource {
 public:
  // Maximum depth of trees that the prior grows alone. The prior has no limit, but text rarely
  // repeats longer runs.
  static constexpr int kPriorDepth = 16;

  explicit CandidateSource(const PolicyContext& context);

  [[nodiscard]] bool has_prior() const { return prior_.has_value(); }

  // The candidates of a draft. A node lists at most `max_children`; lists of a plain draft are not
  // cut. `draft` must outlive the result.
  [[nodiscard]] std::unique_ptr<Candidates> FromDraft(CycleDraft& draft, int depth,
                                                      int max_children) const;
  // The candidates of the prior alone. REQUIRES: has_prior().
  [[nodiscard]] std::unique_ptr<Candidates> FromPrior(int depth, int max_children) const;

  // What proposed the nodes of a tree that was grown from these candidates. `draft` is that of the
  // cycle, which may be empty. REQUIRES: no token was appended since.
  [[nodiscard]] std::vector<NodeSource> SourcesOf(const DraftTree& tree,
                                                  const CycleDraft& draft) const;

  // Adds the prompt of the request to the prior, before any other token.
  void AppendPrompt(absl::Span<const TokenId> prompt, const std::string& salt);
  // Adds the next token of the output to the prior.
  void Append(TokenId token);
  // Learns from the tokens that the target chose after the root, before they are appended.
  // `draft` is that of this cycle, which may be empty. `prior_alone`: the cycle also listed
  // candidates of the prior alone.
  void ObserveChoices(const CycleDraft& draft, bool prior_alone, absl::Span<const TokenId> chosen);

  [[nodiscard]] SharedSpeculation& shared() const { return *shared_; }

 private:
  // True if the drafter's candidates are scored with learned weights.
  [[nodiscard]] bool weighs_drafts() const {
    return prior_.has_value() || mode_ == DraftMode::kCoupled;
  }
  // True if this cycle updates the weights. After the first updates, one cycle in four does,
  // because an update costs as much time as a tree.
  [[nodiscard]] bool ShouldUpdateWeights();

  const DraftMode mode_;
  SharedSpeculation* const shared_;
  PromptCounts* const prompt_counts_;
  std::optional<TransitionPrior> prior_;
  int update_chances_ = 0;  // Cycles that could have updated the weights.
};

// The tokens that the target chose after the root of `tree`.
[[nodiscard]] std::vector<TokenId> ChosenTokens(const DraftTree& tree,
                                                const Acceptance& acceptance);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_CANDIDATE_SOURCE_H_
