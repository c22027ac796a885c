// The result of growing a tree under a budget, and the reason for its size. Plain data.
#ifndef BASTION_ORCHESTRATOR_PLANNER_GROWN_TREE_H_
#define BASTION_ORCHESTRATOR_PLANNER_GROWN_TREE_H_

#include <string_view>

#include "common/stages/draft_tree.h"
#include "common/stages/token_set.h"

namespace bastion {

// Why the tree has no further nodes.
enum class BudgetReason {
  kPolicy,  // It has the size that the policy names (ar, chain, beam, fixed, ngram, bastion:n=N).
  kCost,    // The next node, a draft, or planning is worth less than its time.
  kConfidence,    // No further candidate is likely enough to be worth offering.
  kRequestLimit,  // max_tree_nodes of the request.
  kServerLimit,   // --max_tree_nodes of the server.
  kRows,          // The rows of the forward (--max_rows of the verifier).
  kShare,         // This request's part of these rows: other requests and prompts have the rest.
  kLength,        // The maximum context, or the tokens that the request may still emit.
  kExploration,   // The cycle drafted, or did not speculate, only to learn what that brings.
  kExhausted,     // No candidate of non-zero probability was left.
  kNoDraft,       // The drafter returned an empty draft, failed or was late.
};

[[nodiscard]] constexpr std::string_view BudgetReasonName(BudgetReason reason) {
  switch (reason) {
    case BudgetReason::kPolicy:
      return "policy";
    case BudgetReason::kCost:
      return "cost";
    case BudgetReason::kConfidence:
      return "confidence";
    case BudgetReason::kRequestLimit:
      return "request_limit";
    case BudgetReason::kServerLimit:
      return "server_limit";
    case BudgetReason::kRows:
      return "rows";
    case BudgetReason::kShare:
      return "share";
    case BudgetReason::kLength:
      return "length";
    case BudgetReason::kExploration:
      return "exploration";
    case BudgetReason::kExhausted:
      return "exhausted";
    case BudgetReason::kNoDraft:
      return "no_draft";
  }
  return "unknown";
}

// One cycle's tree of one sequence.
struct GrownTree {
  DraftTree tree;
  BudgetReason reason = BudgetReason::kPolicy;
  bool drafted = false;  // A draft was requested. Its time was spent even if it came back empty.
  RowMasks masks = {};   // Set if the request has a constraint (token_constraint.h).
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PLANNER_GROWN_TREE_H_
