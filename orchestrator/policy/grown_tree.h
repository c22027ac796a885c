// What comes out of growing a tree under a budget, and why it is as large as it is. Plain data.
#ifndef BASTION_ORCHESTRATOR_POLICY_GROWN_TREE_H_
#define BASTION_ORCHESTRATOR_POLICY_GROWN_TREE_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion {

// What the number of nodes was bound by.
enum class BudgetReason {
  kPolicy,     // The policy names its size (ar, chain, beam, fixed), and it was reached.
  kCost,       // More nodes would have cost more than they would have brought.
  kCap,        // The caller's limits: rows, tokens left, context, max_nodes of the request.
  kExhausted,  // No candidate of non-zero probability was left.
  kGate,       // The draft was skipped: plain decoding is faster at the moment.
  kNoDraft,    // The drafter had nothing to say, failed or was late.
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
  double expected_length = 1;  // Calibrated Â, where the policy weighs it.
};

// The tree that the transition prior grows without a drafter.
struct DraftFreeTree {
  BudgetedTree budgeted;
  DraftTree spine;  // As of GrownTree.
};

// One cycle's tree of one sequence, with what its grower needs to learn from the outcome.
struct GrownTree {
  DraftTree tree;
  BudgetReason reason = BudgetReason::kPolicy;
  bool drafted = false;  // A draft was asked for; its time was spent also if it came back empty.
  int context = 0;       // Cached tokens.
  absl::Duration predicted_verify;
  DraftTree spine;           // The top-1 path, as far as it may pay; of the tree or not.
  Marginals marginals = {};  // The draft as it came, if its evidence is weighed.
  // The tree without a draft, if there was one: taken instead, or what might have been.
  std::optional<DraftFreeTree> draft_free = std::nullopt;
  bool is_draft_free = false;  // `tree` is that one.
  bool gate_shut = false;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_GROWN_TREE_H_
