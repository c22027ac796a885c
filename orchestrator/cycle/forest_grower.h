// ForestGrower: the draft and tree stages of a batch. It lets every request propose what it would
// verify (request_policy.h), plans once for all of them (forest_planner.h), drafts in rounds
// (draft_rounds.h), finishes every tree, and applies the constraints. Without its draft, a
// request's policy proposes a tree that needs none, possibly the root alone. Thread-compatible:
// used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
#define BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_

#include <vector>

#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/draft_rounds.h"
#include "orchestrator/cycle/forced_tokens.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/planner/forest_planner.h"

namespace bastion {

struct GrownForest {
  std::vector<GrownTree> trees;  // One per sequence, in the same order.
  DraftOutcome draft;
  absl::Duration tree_time;  // All time that was not spent in draft requests.
  VerifySize size;           // The size of the verify call.
  bool planned = true;       // False if the batch rested (rest_schedule.h).
};

class ForestGrower {
 public:
  // Owns nothing; all pointers must outlive this object.
  ForestGrower(const TargetInfo& target, Drafter* drafter, CostModel* costs, const Clock* clock)
      : target_(target),
        costs_(costs),
        clock_(clock),
        rounds_(target.dims.vocabulary, drafter, costs, clock) {}

  // Grows one tree per sequence, for a verify call that also holds `prompts`. The trees share the
  // rows that the prompts leave. There may be no sequence. `waiting` further prompts have no rows
  // in this call.
  [[nodiscard]] GrownForest Grow(absl::Span<DecodeSequence* const> sequences,
                                 const PromptSize& prompts, int waiting = 0);

  // See ForestPlanner::FixPrice.
  void FixPrice(double tokens_per_second) { planner_.FixPrice(tokens_per_second); }

  // Records the cycle of the last forest: its duration, and the tokens that it committed, each with
  // the weight of its request.
  void EndCycle(absl::Duration total, double tokens) {
    const double seconds = absl::ToDoubleSeconds(total);
    if (rested_) {
      planner_.EndRest(roots_.sequences, {seconds - rest_prompt_seconds_, tokens});
    } else if (planned_) {
      planner_.EndCycle(seconds, tokens);
    }
  }

 private:
  // The trees to grow, with their limits. Sets what this cycle begins with.
  [[nodiscard]] std::vector<GrowingTree> ShareRows(absl::Span<DecodeSequence* const> sequences,
                                                   const PromptSize& prompts);
  // Decides whether the batch rests, which leaves planned trees without nodes. Else starts the
  // cycle of the planner if it takes part.
  void RestOrPlan(std::vector<GrowingTree>& growing);
  // BatchCost::waiting_factor
  [[nodiscard]] double WaitingFactor() const;
  // Starts the cycle of the planner, for trees with `certain` nodes that are not planned.
  void BeginPlan(absl::Span<const GrowingTree> growing, int certain);
  void FinishTrees(std::vector<GrowingTree>& growing, GrownForest* grown);
  // Adds forced tokens to the trees, and applies the constraints of the sequences.
  void Constrain(const std::vector<GrowingTree>& growing, GrownForest* grown);

  const TargetInfo target_;
  CostModel* const costs_;
  const Clock* const clock_;
  ForestPlanner planner_;
  DraftRounds rounds_;
  ForcedTokens forced_;

  // This cycle.
  VerifySize roots_;                // The verify call without nodes: roots and prompts.
  int waiting_ = 0;                 // Prompts that are not in it.
  bool planned_ = false;            // The planner took part.
  bool rested_ = false;             // The planner would take part if the batch did not rest.
  double rest_prompt_seconds_ = 0;  // BatchCost::prompt_seconds of a cycle that rests.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
