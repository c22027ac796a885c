// ForcedTokens: adds the tokens that a constraint forces to draft trees, and learns how often the
// target chooses them. It need not choose them, because the same text has several spellings in
// tokens. Some models follow the usual spelling almost always, others seldom. Thread-compatible:
// used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FORCED_TOKENS_H_
#define BASTION_ORCHESTRATOR_CYCLE_FORCED_TOKENS_H_

#include "common/stages/draft_tree.h"
#include "orchestrator/cost/fading_ratio.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/planner/forest_planner.h"

namespace bastion {

class ForcedTokens {
 public:
  // Learns from the tokens that `sequence` found before its last commit. Then adds those that its
  // constraint forces now to `tree`, at most `room` nodes down to `max_depth`: all of them, or
  // those that pay if the planner plans the tree.
  void AddTo(DraftTree* tree, DecodeSequence& sequence, int room, int max_depth,
             ForestPlanner& planner);

  // The share of forced tokens that the target chose, if it chose those before.
  [[nodiscard]] double rate() const { return chosen_.value(); }

 private:
  // Chosen tokens over forced ones. It begins as if the target nearly always chose them.
  FadingRatio chosen_ = {.top = 9.5, .bottom = 10};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FORCED_TOKENS_H_
