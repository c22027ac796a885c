// Policy: determines which trees the cycles of a request verify. Parsed from text:
//
//   ar            plain decoding, no drafts
//   chain[:n]     the top-1 path, n nodes (without n: all positions)
//   beam:WxD      the best W prefixes on each of D levels
//   fixed:N       best-first, N nodes (DDTree)
//   bastion       best-first with the stop rule (speedup_stop.h) and the latency estimator
//                 (static_fit.h) of the BASTION paper
//   adaptive      best-first or chain, whichever is better at the measured costs (lookahead.h).
//                 Corrects the drafter's probabilities by past acceptance (survival.h). Stops
//                 drafting while drafts cost more time than they save (draft_gate.h)
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
// Immutable plain data; thread-safe.
#ifndef BASTION_ORCHESTRATOR_POLICY_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_POLICY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace bastion {

class Policy {
 public:
  enum class Kind { kAr, kChain, kBeam, kFixed, kBastion, kAdaptive, kNgram };
  enum class Prior { kNone, kTable, kRequest, kBoth };
  static constexpr int kLargestNumber = 4096;  // Limit for every number in the text.

  // INVALID_ARGUMENT, with the grammar in the message, for any other text.
  [[nodiscard]] static absl::StatusOr<Policy> Parse(std::string_view text);

  [[nodiscard]] Kind kind() const { return kind_; }
  // The text that was parsed.
  [[nodiscard]] const std::string& text() const { return text_; }
  // False if no cycle of this policy ever needs a draft.
  [[nodiscard]] bool wants_draft() const { return kind_ != Kind::kAr && kind_ != Kind::kNgram; }

  [[nodiscard]] bool coupled() const { return coupled_; }
  [[nodiscard]] Prior prior() const { return prior_; }

  // N of fixed and ngram, n of chain (0: all positions).
  [[nodiscard]] int nodes() const { return nodes_; }
  // W and D of beam.
  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] int depth() const { return depth_; }

  // K, the number of candidates per position that suffices for trees of at most `max_nodes` nodes;
  // more candidates would not change the tree (DDTree, Lemma 1). For policies that weigh costs, K
  // is at most 64, because more children of one node are never worth their cost. With a prior, K is
  // 64, because the prior can move candidates up from low ranks.
  [[nodiscard]] int CandidatesFor(int max_nodes) const;

 private:
  Policy(Kind kind, std::string_view text) : kind_(kind), text_(text) {}

  Kind kind_;
  std::string text_;
  bool coupled_ = false;
  Prior prior_ = Prior::kNone;
  int nodes_ = 0;
  int width_ = 0;
  int depth_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_POLICY_H_
