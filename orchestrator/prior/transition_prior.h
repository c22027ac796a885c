// TransitionPrior: what the tokens just before say about the next one.
//
// A block-diffusion drafter guesses every position on its own: once a sibling was taken, the next
// marginal is about another continuation. But when a child is scored its parents are known, and
// what usually follows them can be looked up. Sources, from the general to the particular, each
// sharpening the estimate of the one before (interpolated counts, as in n-gram language models):
//
//   p_s(x) = (n_s(x) + k_s · p_{s−1}(x)) / (n_s + k_s),   p_0(x) = P(x), the token's overall share
//
// n_s(x): how often x followed this source's context. What source s adds for candidate x is
//
//   gain_s(x) = log(1 + n_s(x) / (k_s · p_{s−1}(x)))  >= 0,
//
// which is log p_s/p_{s−1} but for a constant that all candidates share. Tokens that no source has
// seen here have gains of 0 and are not listed: the evidence is sparse.
//
// One per request. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_TRANSITION_PRIOR_H_
#define BASTION_ORCHESTRATOR_PRIOR_TRANSITION_PRIOR_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/prior/continuation_counts.h"
#include "orchestrator/prior/transition_gains.h"

namespace bastion {

// In the order of their interpolation: counts after the last token, or the last two or three; of
// the table, of what all requests wrote (when that is learned), and of this request.
enum class EvidenceSource {
  kTableOne,
  kTableTwo,
  kLearnedOne,
  kLearnedTwo,
  kRequestOne,
  kRequestTwo,
  kRequestThree,
};
inline constexpr int kEvidenceSources = 7;

struct TokenEvidence {
  TokenId token = 0;
  float probability = 0;  // P(x)
  float share = 0;        // p(x) with all sources.
  std::array<float, kEvidenceSources> gains{};
};

// The evidence after one context: every token that some source has seen there, once.
class EvidenceList {
 public:
  [[nodiscard]] absl::Span<TokenEvidence> found() { return absl::MakeSpan(found_); }
  [[nodiscard]] absl::Span<const TokenEvidence> found() const { return found_; }

  void Clear();
  // The entry of `token`; a new one is all zeros.
  [[nodiscard]] TokenEvidence& At(TokenId token);
  // The entry of `token`, or null.
  [[nodiscard]] const TokenEvidence* Find(TokenId token) const;

 private:
  static constexpr size_t kSlots = 256;  // Well above twice what the sources list together.
  struct Slot {
    uint32_t round = 0;
    uint16_t index = 0;
  };
  // Where the entry of `token` is, or would be.
  [[nodiscard]] size_t SlotOf(TokenId token) const;

  std::vector<TokenEvidence> found_;
  std::array<Slot, kSlots> slots_{};
  uint32_t round_ = 1;
};

// The last tokens before a place, newest first.
struct RecentTokens {
  static constexpr int kMost = 3;
  std::array<TokenId, kMost> tokens{};
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
    const TransitionGains* table = nullptr;  // Not owned; none: P(x) is uniform.
    ContinuationCounts* learned = nullptr;   // Not owned, shared; none: nothing is learned.
    bool request = true;                     // Count what this request writes.
  };
  explicit TransitionPrior(const Options& options);

  // The next token of the request: of its prompt, then of its answer. One outside the vocabulary
  // (a bad prompt: the verifier will refuse it) ends what is known of the text before.
  void Append(TokenId token);

  // The tokens before a child of `node`: the path to it, and what came before the root. REQUIRES:
  // the tree's root is the token appended last.
  [[nodiscard]] RecentTokens Before(const DraftTree& tree, NodeIndex node) const;
  // The same for the place after `following` more tokens.
  [[nodiscard]] RecentTokens Before(absl::Span<const TokenId> following) const;

  void Gather(const RecentTokens& recent, EvidenceList* evidence) const;

  // P(x)
  [[nodiscard]] float Probability(TokenId token) const {
    return options_.table != nullptr ? options_.table->Probability(token) : uniform_;
  }

 private:
  void Count(ContinuationCounts* counts, int longest, TokenId next) const;
  // The entry of `token`, with what is known of it without any counts.
  TokenEvidence& EntryOf(TokenId token, float rest, EvidenceList* evidence) const;
  // Adds the table's gains; returns what unlisted tokens keep of P(x).
  [[nodiscard]] float GatherTable(const RecentTokens& recent, EvidenceList* evidence) const;
  [[nodiscard]] Continuations Counted(EvidenceSource source, const RecentTokens& recent) const;

  const Options options_;
  const float uniform_;
  ContinuationCounts request_;
  RecentTokens tail_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_TRANSITION_PRIOR_H_
