// DraftRounds: the Expand calls of a cycle, and what they teach. In each round, the policies say
// what the drafter should expand, the planner chooses who takes part, and one call serves them all.
// A block drafter serves one round, of the roots. A failed or late draft is not an error: its
// policy gets an empty one.
//
// Learns what rounds cost, what the further rounds of a draft take, whether the drafter expands
// nodes, and whether it scores pairs. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_DRAFT_ROUNDS_H_
#define BASTION_ORCHESTRATOR_CYCLE_DRAFT_ROUNDS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/planner/forest_planner.h"

namespace bastion {

// One sequence while its tree grows.
struct GrowingTree {
  DecodeSequence* sequence;
  TreeLimits limits;
  const DraftRound* round = nullptr;
  bool explores = false;  // Drafts only to explore.
  bool declined = false;  // Takes no further round in this cycle.
};

// What the rounds of a cycle came to.
struct DraftOutcome {
  bool requested = false;          // For at least one sequence.
  int planned = 0;                 // Drafts that the planner chose.
  absl::Duration began, ended;     // The first Expand call; the end of the last one.
  absl::Duration choosing, spent;  // Before the calls, and in them.
  absl::Status status;             // The error of the last call, or of an invalid draft.
};

class DraftRounds {
 public:
  // Owns nothing; all pointers must outlive this object. `vocabulary` is that of the target.
  DraftRounds(int vocabulary, Drafter* drafter, CostModel* costs, const Clock* clock)
      : vocabulary_(vocabulary), drafter_(drafter), costs_(costs), clock_(clock) {}

  // Runs the rounds of a cycle that `planner` and the policies have begun. The time since the last
  // lap of `watch` counts as that of choosing.
  [[nodiscard]] DraftOutcome Run(absl::Span<GrowingTree> growing, ForestPlanner& planner,
                                 StopWatch& watch);

 private:
  using Drafting = std::vector<GrowingTree*>;

  // The proposal of a sequence's first round, with what only the cycle knows.
  [[nodiscard]] DraftProposal ProposalOf(const GrowingTree& one) const;
  // Returns the sequences that draft in this round, and counts the planned ones.
  [[nodiscard]] Drafting Choose(absl::Span<GrowingTree> growing, ForestPlanner& planner,
                                int* planned) const;
  // Calls the drafter and hands every draft to its policy. Returns how long the call of a further
  // round took.
  absl::Duration Expand(const Drafting& drafting, StopWatch& watch, DraftOutcome* outcome);
  // Learns what an Expand call costs. `call` is that of a first round, without its trace.
  void ObserveCost(const Drafting& drafting, bool further, DraftCall call,
                   const absl::StatusOr<DraftResult>& result);
  // After an Expand call: asks what kind of drafter this is, after the first success and after each
  // failure, because another drafter may have taken its place.
  void LearnKind(bool expanded);

  const int vocabulary_;
  Drafter* const drafter_;
  CostModel* const costs_;
  const Clock* const clock_;
  // The mean time that the further rounds of a cycle take per planned draft.
  double later_seconds_ = 0;
  bool knows_kind_ = false;
  bool expands_nodes_ = false;  // DrafterInfo::expands_nodes
  bool scores_pairs_ = false;   // The last marginals had pair scores.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_DRAFT_ROUNDS_H_
