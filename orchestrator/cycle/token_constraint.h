// TokenConstraint: limits which tokens the answer to a request may have, and knows what may follow
// the tokens so far.
//
// ConstrainTree applies it to a draft tree: every node that could never be accepted is removed, and
// every row gets the mask under which the target chooses. So the target chooses the same tokens as
// in plain decoding under the constraint, with any tree. AddPath makes the constraint a drafter:
// where only one text is possible, e.g. the next key of a JSON object, its tokens are drafts that
// are accepted unless the target divides the text into tokens in an unusual way. Thread-compatible:
// used by the cycle's thread, or by a MaskWorker.
#ifndef BASTION_ORCHESTRATOR_CYCLE_TOKEN_CONSTRAINT_H_
#define BASTION_ORCHESTRATOR_CYCLE_TOKEN_CONSTRAINT_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/token_set.h"
#include "orchestrator/planner/grown_tree.h"

namespace bastion {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // The same state, independent of this one.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const = 0;
  // The tokens that may follow, those that end the answer included. At least one, unless
  // complete().
  [[nodiscard]] virtual absl::StatusOr<TokenSet> Allowed() = 0;
  // The tokens that will follow if the target spells the only possible text in the usual way. Empty
  // if several texts are possible. A guess: good drafts, no more.
  [[nodiscard]] virtual std::vector<TokenId> Forced() = 0;
  // Appends a token. An error if it may not follow. REQUIRES: it does not end the answer.
  [[nodiscard]] virtual absl::Status Push(TokenId token) = 0;
  // Removes the last `tokens` tokens.
  [[nodiscard]] virtual absl::Status Pop(int tokens) = 0;
  // True if nothing may follow. The answer is complete then, even without a token that ends it.
  [[nodiscard]] virtual bool complete() const = 0;
  // The CPU time that each later call of Allowed and Push may take. One that takes longer returns
  // DEADLINE_EXCEEDED. The object must not be used then. Constraints that are always fast ignore
  // it.
  virtual void LimitTime(absl::Duration) {}
  // The memory that it takes.
  [[nodiscard]] virtual size_t bytes() const { return 0; }
};

// How many of `tokens`, in order, are a path from the root of `tree`.
[[nodiscard]] int LengthInTree(const DraftTree& tree, absl::Span<const TokenId> tokens);

// Adds `tokens` as a path from the root. Nodes that the tree has already stay.
void AddPath(absl::Span<const TokenId> tokens, DraftTree* tree);

// Removes the nodes of `grown` that `constraint` does not allow, with all nodes below them, and
// sets its masks. `ends` are the tokens that end the answer. `at_root` is what may follow the root,
// if that is known. Leaves `constraint` as it was.
[[nodiscard]] absl::Status ConstrainTree(const absl::flat_hash_set<TokenId>& ends,
                                         TokenConstraint& constraint, GrownTree* grown,
                                         const TokenSet* at_root = nullptr);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_TOKEN_CONSTRAINT_H_
