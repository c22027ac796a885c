// Marginals: a drafter's token distributions for the P positions that follow one node. Plain data.
//
// Struct of arrays, position-major [P, K]. Candidates of a position are sorted by decreasing
// log-probability; ties are sorted by increasing token id. The log-probabilities come from the
// drafter's full softmax, so the probabilities of the K candidates need not sum to one. An empty
// object (P = 0) means "no draft": the tree is the root alone.
#ifndef BASTION_COMMON_STAGES_MARGINALS_H_
#define BASTION_COMMON_STAGES_MARGINALS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion {

struct Marginals {
  int positions = 0;             // P
  int candidates = 0;            // K
  std::vector<TokenId> tokens;   // [P, K]
  std::vector<float> log_probs;  // [P, K]

  [[nodiscard]] bool empty() const { return positions == 0; }
  [[nodiscard]] TokenId token(int position, int rank) const {
    return tokens[static_cast<size_t>(position) * candidates + rank];
  }
  [[nodiscard]] float log_prob(int position, int rank) const {
    return log_probs[static_cast<size_t>(position) * candidates + rank];
  }

  // INVALID_ARGUMENT unless sizes agree, tokens lie in [0, vocabulary) and differ within a
  // position, and log-probabilities are <= 0, sorted and not NaN (-inf is allowed).
  [[nodiscard]] absl::Status Validate(int vocabulary) const;

  friend bool operator==(const Marginals&, const Marginals&) = default;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_MARGINALS_H_
