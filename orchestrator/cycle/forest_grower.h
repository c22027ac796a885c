// ForestGrower: the draft and tree stages of a batch. It lets every request propose what it would
// verify (request_policy.h), plans once for all of them (forest_planner.h), sends the drafter one
// request for all sequences that draft, and finishes every tree. A failed or late draft is not an
// error: the request's policy then offers a tree without a draft, possibly the root alone.
// Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
#define BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/forced_acceptance.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/planner/forest_planner.h"

namespace bastion {

struct GrownForest {
  std::vector<GrownTree> trees;            // One per sequence, in the same order.
  StageTimes times;                        // Only `draft` and `tree` are set.
  bool draft_requested = false;            // For at least one sequence.
  absl::Duration draft_began, tree_began;  // The first draft request; the end of the last one.
  absl::Status draft_status;  // The error of the draft request, or of an invalid draft.
  VerifySize size;            // The size of the verify call.
  bool planned = true;        // False if the batch rested (rest_schedule.h).
};

class ForestGrower {
 public:
  // Owns nothing; all pointers must outlive this object.
  ForestGrower(const TargetInfo& target, Drafter* drafter, CostModel* costs, const Clock* clock)
      : target_(target), drafter_(drafter), costs_(costs), clock_(clock) {}

  // Grows one tree per sequence, for a verify call that also holds `prompts`. The trees share the
  // rows that the prompts leave. There may be no sequence.
  [[nodiscard]] GrownForest Grow(absl::Span<DecodeSequence* const> sequences,
                                 const PromptSize& prompts);

  // See ForestPlanner::FixPrice.
  void FixPrice(double tokens_per_second) { planner_.FixPrice(tokens_per_second); }

  // Records the cycle of the last forest: its duration, and the tokens that it committed, each with
  // the weight of its request.
  void EndCycle(absl::Duration total, double tokens) {
    const double seconds = absl::ToDoubleSeconds(total);
    if (rested_) {
      planner_.EndRest(roots_.sequences, {seconds, tokens, roots_.prompts.rows == 0});
    } else if (planned_) {
      planner_.EndCycle(seconds, tokens);
    }
  }

 private:
  // One sequence during Grow.
  struct Growing {
    DecodeSequence* sequence;
    TreeLimits limits;
    const DraftRound* round = nullptr;
    bool explores = false;  // Drafts only to explore.
    bool declined = false;  // Takes no further round in this cycle.
  };

  // Starts the cycle of the planner, for trees with `certain` nodes that are not planned.
  void BeginPlan(absl::Span<const Growing> growing, int certain);
  // The offer of a sequence's first round, with what only the cycle knows.
  [[nodiscard]] DraftOffer OfferOf(const Growing& one) const;
  // Returns the sequences that draft in this round, and adds the planned ones to drafts_.
  [[nodiscard]] std::vector<Growing*> ChooseDrafts(std::vector<Growing>& growing);
  // Calls the drafter and hands every draft to its policy.
  void Expand(absl::Span<Growing* const> drafting, GrownForest* grown, StopWatch* watch);
  // Learns what an Expand call costs. `call` is that of a first round, without its trace.
  void ObserveCost(absl::Span<Growing* const> drafting, DraftCall call,
                   const absl::StatusOr<DraftResult>& result);
  // After an Expand call: asks what kind of drafter this is, after the first success and after each
  // failure, because another drafter may have taken its place.
  void LearnKind(bool expanded);
  void FinishTrees(std::vector<Growing>& growing, GrownForest* grown);
  // Applies the constraints of the sequences to their trees.
  void Constrain(const std::vector<Growing>& growing, GrownForest* grown);
  // Adds the tokens that the constraint of a sequence forces to its tree: all of them, or those
  // that pay if the tree is planned. The forward has room for `room` more nodes.
  void AddForced(const Growing& one, int room, DraftTree* tree);

  const TargetInfo target_;
  Drafter* const drafter_;
  CostModel* const costs_;
  const Clock* const clock_;
  ForestPlanner planner_;
  // The mean time that the further rounds of a cycle take per planned draft.
  double later_seconds_ = 0;
  ForcedAcceptance forced_;
  bool knows_kind_ = false;
  bool expands_nodes_ = false;  // DrafterInfo::expands_nodes

  // This cycle.
  VerifySize roots_;          // The verify call without nodes: roots and prompts.
  int drafts_ = 0;            // Drafts that the planner chose.
  double round_seconds_ = 0;  // Spent in further rounds.
  bool planned_ = false;      // The planner took part.
  bool rested_ = false;       // The planner would take part if the batch did not rest.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
