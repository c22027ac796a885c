// Policy: determines which trees the cycles of a request verify. Parsed from text:
//
//   ar            plain decoding, no drafts
//   chain[:n]     the spine, n nodes (without n: all positions)
//   linear:K      the spine, K nodes: speculative decoding (Leviathan et al.)
//   assisted      Hugging Face's assisted generation (assisted_policy.h)
//   dynatree      DynaTree (dynatree_policy.h, which lists its options); dynatree:fixed is the
//                 fixed tree of the same paper
//   eagle         the tree of EAGLE-2 and EAGLE-3 (tree/eagle.h): eagle[:width[,depth[,n]]], by
//                 default eagle:10,7,60. n counts the root
//   specblock     the tree of SpecBlock (specblock_policy.h, which lists its options);
//                 specblock:literal follows the paper's text instead of the authors' code
//   beam:WxD      the best W prefixes on each of D levels
//   fixed:N       best-first, N nodes (DDTree)
//   bastion       best-first with the stop rule and a latency estimator of the BASTION paper
//                 (bastion_policy.h, which lists its options): bastion[:static|ema|ema-calib], and
//                 further options after commas: bastion:ema,alpha=0.2,k=64,n=512
//   adaptive      the nodes that pay off in the whole batch at the measured costs
//                 (forest_planner.h). Corrects the drafter's probabilities by past acceptance
//                 (acceptance_calibration.h). Drafts only while drafts save time
//   ngram:N       best-first, N nodes, from the transition prior alone: no drafts
//   default       the default of the services: adaptive+coupled+prior
//
// Suffixes:
//   +coupled        The drafter ranks its candidates with the noise that the target will use for
//                   its choice (coupled drafting). No effect at temperature 0.
//   +prior          The tokens before a node influence its children (transition_prior.h). A cycle
//                   without a draft verifies a tree that the prior grows alone. adaptive also skips
//                   the draft when such a tree is worth more.
//   +prior:table    +prior without the counts of this request: only the table and, if collected,
//                   the counts of all requests. For measurements.
//   +prior:request  +prior with the counts of this request only. For measurements.
//
// Immutable, cheap to copy; thread-safe.
#ifndef BASTION_ORCHESTRATOR_POLICY_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_POLICY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/policy/policy_kind.h"

namespace bastion {

class Policy {
 public:
  enum class Prior { kNone, kTable, kRequest, kBoth };

  // INVALID_ARGUMENT, with the grammar in the message, for any other text.
  [[nodiscard]] static absl::StatusOr<Policy> Parse(std::string_view text);

  // The text that was parsed.
  [[nodiscard]] const std::string& text() const { return text_; }
  // False for plain decoding ("ar").
  [[nodiscard]] bool speculates() const { return text_ != "ar"; }
  [[nodiscard]] bool coupled() const { return coupled_; }
  [[nodiscard]] Prior prior() const { return prior_; }
  // False if no cycle of this policy ever needs a draft.
  [[nodiscard]] bool wants_draft() const { return kind_->wants_draft(); }

  // K, the number of candidates per position that suffices for trees of at most `max_nodes` nodes;
  // more candidates would not change the tree (DDTree, Lemma 1). For policies that weigh costs, K
  // is at most kMaxUsefulCandidates. With a prior, K is kMaxUsefulCandidates, because the prior can
  // move candidates up from low ranks.
  [[nodiscard]] int CandidatesFor(int max_nodes) const;

  // A new request under this policy. See PolicyContext.
  [[nodiscard]] std::unique_ptr<RequestPolicy> NewRequest(bool greedy, const CostModel* costs,
                                                          SharedLearning* memory) const;

 private:
  Policy(std::string_view text, std::shared_ptr<const PolicyKind> kind)
      : text_(text), kind_(std::move(kind)) {}

  std::string text_;
  std::shared_ptr<const PolicyKind> kind_;
  bool coupled_ = false;
  Prior prior_ = Prior::kNone;
};

// The base names of all policies: "ar", "fixed", …
[[nodiscard]] std::vector<std::string> PolicyBaseNames();

// The policies of a list that is separated by commas, without empty ones. A part NAME=VALUE is an
// option of the policy before it, and so is a part that begins with a digit.
[[nodiscard]] std::vector<std::string> SplitPolicies(std::string_view list);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_POLICY_H_
