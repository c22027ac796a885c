// The result of growing a tree under a budget, and the reason for its size. Plain data.
#ifndef BASTION_ORCHESTRATOR_POLICY_GROWN_TREE_H_
#define BASTION_ORCHESTRATOR_POLICY_GROWN_TREE_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion {

// Why the tree stopped growing.
enum class BudgetReason {
  kPolicy,     // It has the size that the policy names (ar, chain, beam, fixed, ngram).
  kCost,       // More nodes would cost more than they yield.
  kCap,        // The caller's limits: rows, tokens left, context, max_nodes of the request.
  kExhausted,  // No candidate of non-zero probability was left.
  kGate,       // The draft gate was closed: plain decoding is currently faster.
  kNoDraft,    // The drafter returned an empty draft, failed or was late.
};

[[nodiscard]] constexpr std::string_view BudgetReasonName(BudgetReason reason) {
  switch (reason) {
    case BudgetReason::kPolicy:
      return "policy";
    case BudgetReason::kCost:
      return "cost";
    case BudgetReason::kCap:
      return "cap";
    case BudgetReason::kExhausted:
      return "exhausted";
    case BudgetReason::kGate:
      return "gate";
    case BudgetReason::kNoDraft:
      return "no_draft";
  }
  return "unknown";
}

struct BudgetedTree {
  DraftTree tree;
  BudgetReason reason;
  // Â: the expected committed length, calibrated by survival.h. Set only by policies that compute
  // it.
  double expected_length = 1;
};

// A tree that the transition prior grew without a draft.
struct DraftFreeTree {
  BudgetedTree budgeted;
  DraftTree spine;  // Like GrownTree::spine.
};

// One cycle's tree of one sequence, with the data that its grower needs to learn from the outcome.
struct GrownTree {
  DraftTree tree;
  BudgetReason reason = BudgetReason::kPolicy;
  bool drafted = false;  // A draft was requested. Its time was spent even if it came back empty.
  int context = 0;       // Cached tokens.
  absl::Duration predicted_verify;
  // The top-1 path, up to the depth where more nodes cannot be worth their cost. It may be longer
  // than the path in `tree`.
  DraftTree spine;
  // The drafter's marginals, if their candidates are weighted (weighted_candidates.h).
  Marginals marginals = {};
  // The draft-free tree of this cycle, if one was grown, used or not.
  std::optional<DraftFreeTree> draft_free = std::nullopt;
  bool is_draft_free = false;  // `tree` is the draft-free tree.
  bool gate_closed = false;    // The draft gate prevented a draft.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_GROWN_TREE_H_
