// Policy: which tree a request's cycles verify, parsed from the text that people write.
//
//   ar            plain decoding, no drafts
//   chain[:n]     the top-1 path, n nodes (all positions when n is left out)
//   beam:WxD      the best W prefixes on each of D levels
//   fixed:N       best-first, N nodes (DDTree)
//   bastion       best-first with BASTION's stop rule and its Static latency estimator
//   adaptive      best-first or chain with look-ahead over the measured costs, calibrated survival
//                 and the draft gate
//   ngram:N       best-first, N nodes, from the transition prior alone: no drafts
//   default       what the services do when nobody says otherwise: adaptive+coupled+prior
//
// With +coupled the drafter ranks its candidates with the noise that the target will choose with
// (coupled drafting); at temperature 0 that changes nothing.
// With +prior the tokens before a node have a say in its children (transition_prior.h), adaptive
// may go without a draft where the prior is enough, and so does every policy when there is no
// draft. +prior:table (with what is learned from all requests, if anything is) and +prior:request
// leave one of its two sources out, to see what it is worth.
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
  static constexpr int kLargestNumber = 4096;  // Of any number in the text.

  // INVALID_ARGUMENT, saying what is allowed, for anything but the grammar above.
  [[nodiscard]] static absl::StatusOr<Policy> Parse(std::string_view written);

  [[nodiscard]] Kind kind() const { return kind_; }
  // As it was written.
  [[nodiscard]] const std::string& text() const { return text_; }
  // False when no cycle of this policy ever needs a draft.
  [[nodiscard]] bool wants_draft() const { return kind_ != Kind::kAr && kind_ != Kind::kNgram; }

  [[nodiscard]] bool coupled() const { return coupled_; }
  [[nodiscard]] Prior prior() const { return prior_; }

  // N of fixed and ngram, n of chain (0: all positions).
  [[nodiscard]] int nodes() const { return nodes_; }
  // W and D of beam.
  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] int depth() const { return depth_; }

  // K, the candidates per position that suffice for trees of at most `max_nodes` nodes (DDTree,
  // Lemma 1): to ask the drafter for more would change nothing. The policies that weigh costs make
  // do with 64: a tree that pays has no wider fan. With a prior it is 64 too: evidence lifts
  // candidates from far down.
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
