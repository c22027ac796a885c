// TransitionPrior: predicts the next token of one request from the tokens just before it.
//
// Terms used in orchestrator/prior:
//   transition table     How often tokens followed one or two given tokens in a large corpus. It is
//                        read-only and comes from a file (common/prior/transition_table.h).
//                        TransitionGains is the same table, prepared for fast lookup.
//   continuation counts  The same kind of counts, collected while the service runs
//                        (ContinuationCounts): for each request, and optionally for all requests
//                        together (LearnedPrior).
//   source               The counts of one kind for one context length. There are seven sources
//                        (PriorSource).
//   gain                 How much one source raises the score of a token, given the sources before
//                        it.
//   prior                The estimate of the next token from all sources: this class.
//   weights              How much the drafter's log-probability and each gain count in the score of
//                        a candidate (CandidateWeights). They are learned from the target's
//                        choices.
//
// Why a prior: a block-diffusion drafter predicts every position independently. Its marginal for a
// position assumes the most likely tokens at the earlier positions, so it is a poor prediction on
// any other path of the tree. But when a child is scored, the tokens before it are known, and the
// prior looks up which tokens usually follow them. Each source, from the general to the specific,
// sharpens the estimate of the source before it (interpolated counts, as in n-gram language
// models):
//
//   p_s(x) = (n_s(x) + k_s · p_{s−1}(x)) / (n_s + k_s)
//
// n_s(x) counts how often x followed this source's context, n_s counts all continuations of the
// context, k_s is a constant, and p_0(x) = P(x) is the frequency of x in any context. The gain of
// source s for candidate x is
//
//   gain_s(x) = log(1 + n_s(x) / (k_s · p_{s−1}(x)))  >= 0.
//
// This equals log p_s/p_{s−1} up to a constant that all candidates share. Tokens that no source has
// seen in this context have gains of 0 and are not in the GainList.
//
// One object per request. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_TRANSITION_PRIOR_H_
#define BASTION_ORCHESTRATOR_PRIOR_TRANSITION_PRIOR_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/prior/continuation_counts.h"
#include "orchestrator/prior/prompt_counts.h"
#include "orchestrator/prior/transition_gains.h"

namespace bastion {

// The sources, in the order of interpolation. kTable… is the transition table, kLearned… are the
// continuation counts of all requests, and kRequest… are those of this request. One, Two and Three
// are the numbers of tokens in the context.
enum class PriorSource {
  kTableOne,
  kTableTwo,
  kLearnedOne,
  kLearnedTwo,
  kRequestOne,
  kRequestTwo,
  kRequestThree,
};
inline constexpr int kPriorSources = 7;

// The gains of one token after one context.
struct TokenGains {
  TokenId token = 0;
  float probability = 0;  // P(x)
  float estimate = 0;     // p_s(x) of the last source.
  std::array<float, kPriorSources> gains{};
};

// The gains after one context: one entry for every token that some source has seen there.
class GainList {
 public:
  [[nodiscard]] absl::Span<TokenGains> entries() { return absl::MakeSpan(entries_); }
  [[nodiscard]] absl::Span<const TokenGains> entries() const { return entries_; }

  void Clear();
  // The entry of `token`. If there is none, adds an entry of zeros.
  [[nodiscard]] TokenGains& FindOrAdd(TokenId token);
  // The entry of `token`, or null.
  [[nodiscard]] const TokenGains* Find(TokenId token) const;

 private:
  static constexpr size_t kSlots = 256;  // More than twice the entries that all sources can list.
  struct Slot {
    uint32_t round = 0;
    uint16_t index = 0;
  };
  // The slot that holds the entry of `token`, or the free slot where it belongs.
  [[nodiscard]] size_t SlotOf(TokenId token) const;

  std::vector<TokenGains> entries_;
  std::array<Slot, kSlots> slots_{};
  uint32_t round_ = 1;
};

// The tokens just before a position, newest first.
struct RecentTokens {
  static constexpr int kMaxSize = 3;
  std::array<TokenId, kMaxSize> tokens{};
  int size = 0;

  friend bool operator==(const RecentTokens&, const RecentTokens&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RecentTokens& recent) {
    return H::combine(std::move(h), recent.tokens, recent.size);
  }
};

class TransitionPrior {
 public:
  static constexpr size_t kRequestContexts = size_t{1} << 16;  // 4 MiB at most.

  struct Options {
    int vocabulary = 0;
    const TransitionGains* table = nullptr;  // Not owned. Null: P(x) is uniform.
    ContinuationCounts* learned = nullptr;   // Not owned, shared by all requests. Null: unused.
    bool request = true;                     // Count the transitions of this request.
  };
  explicit TransitionPrior(const Options& options);

  // Adds the prompt of the request, before any other token. Reuses and keeps its counts in
  // `counts`, under `salt`. Equals Append of all tokens.
  void AppendPrompt(absl::Span<const TokenId> prompt, const std::string& salt,
                    PromptCounts& counts);
  // Adds the next token of the request. A token outside the vocabulary is not counted and clears
  // the context (the verifier will reject such a prompt).
  void Append(TokenId token) { Append(token, options_.request); }

  // The tokens before a child of `node`: the path to `node`, then the request's text before the
  // root. REQUIRES: the root of the tree is the token appended last.
  [[nodiscard]] RecentTokens TokensBefore(const DraftTree& tree, NodeIndex node) const;
  // The tokens before the next position as if `following` had been appended.
  [[nodiscard]] RecentTokens TokensBefore(absl::Span<const TokenId> following) const;

  // Replaces the contents of `*list` with the gains of all tokens that some source has seen after
  // `recent`.
  void CollectGains(const RecentTokens& recent, GainList* list) const;

  // P(x)
  [[nodiscard]] float Probability(TokenId token) const {
    return options_.table != nullptr ? options_.table->Probability(token) : uniform_;
  }

 private:
  // Adds the next token. Its continuation is counted for this request if `counts`.
  void Append(TokenId token, bool counts);
  // Counts `next` after the last 1, 2, … `max_length` tokens.
  void CountContinuation(ContinuationCounts* counts, int max_length, TokenId next) const;
  // Returns the entry of `token`. If there is none, adds an entry with estimate P(x) · rest, where
  // `rest` is the result of CollectTableGains.
  TokenGains& FindOrAddEntry(TokenId token, float rest, GainList* list) const;
  // Adds the table's gains. Returns `rest`: the table's estimate of a token that it does not list
  // is P(x) · rest.
  [[nodiscard]] float CollectTableGains(const RecentTokens& recent, GainList* list) const;
  [[nodiscard]] Continuations ContinuationsIn(PriorSource source, const RecentTokens& recent) const;

  const Options options_;
  const float uniform_;
  ContinuationCounts request_;
  RecentTokens tail_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_TRANSITION_PRIOR_H_
