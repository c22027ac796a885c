// SharedLearning: what the policies learn, shared by all requests of one drafter and verifier.
// So the cost of finding out that a drafter is useless is paid once, not once per request.
// Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_POLICY_SHARED_LEARNING_H_
#define BASTION_ORCHESTRATOR_POLICY_SHARED_LEARNING_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "orchestrator/belief/acceptance_calibration.h"
#include "orchestrator/belief/child_profile.h"
#include "orchestrator/belief/draft_belief.h"
#include "orchestrator/belief/reliability.h"
#include "orchestrator/policy/dynatree_history.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/prior/candidate_weights.h"
#include "orchestrator/prior/continuation_counts.h"
#include "orchestrator/prior/prompt_counts.h"
#include "orchestrator/prior/transition_gains.h"

namespace bastion {

// The drafter's accuracy depends on the mode: it is lower on sampled text than on greedy text;
// coupled drafts recover part of the loss.
enum class DraftMode { kGreedy, kSampled, kCoupled };

// What requests with the same DraftMode and kind of prior share.
struct SharedSpeculation {
  CandidateWeights draft_weights = CandidateWeights::ForDrafts();
  CandidateWeights prior_weights = CandidateWeights::ForPriorAlone();
  int64_t weight_updates = 0;  // Number of cycles that updated the weights.
  AcceptanceCalibration draft_calibration;
  AcceptanceCalibration prior_calibration;  // For trees that the prior grew alone.
  DraftBelief belief;
  ChildProfile child_profile;  // For drafters that expand nodes.
};

// The parts of the transition prior that do not belong to one request. Nothing is owned.
struct PriorInputs {
  int vocabulary = 0;                      // 0: no prior; +prior has no effect.
  const TransitionGains* table = nullptr;  // Must have this vocabulary. Null: no table.
  ContinuationCounts* learned = nullptr;   // Counts of all requests. Null: not collected.
};

class SharedLearning {
 public:
  explicit SharedLearning(const PriorInputs& inputs = {}) : inputs_(inputs) {}

  [[nodiscard]] const PriorInputs& inputs() const { return inputs_; }

  // The counts of prompts that begin alike.
  [[nodiscard]] PromptCounts& prompt_counts() { return prompt_counts_; }

  // Creates the state at the first use. The reference stays valid.
  [[nodiscard]] SharedSpeculation& at(DraftMode mode, Policy::Prior prior) {
    return shared_[{mode, prior}];
  }
  // All states so far.
  using Key = std::pair<DraftMode, Policy::Prior>;
  [[nodiscard]] const std::map<Key, SharedSpeculation>& shared() const { return shared_; }

  // The history of a policy with this text. Begins as `initial`. The reference stays valid.
  [[nodiscard]] DynaTreeHistory& dynatree_history(const std::string& policy,
                                                  const DynaTreeHistory& initial) {
    return dynatree_histories_.emplace(policy, initial).first->second;
  }

  // Requests that start later count the reliability of their nodes here. Not owned. Null, the
  // default: not collected.
  void set_reliability(Reliability* reliability) { reliability_ = reliability; }
  [[nodiscard]] Reliability* reliability() const { return reliability_; }

 private:
  const PriorInputs inputs_;
  PromptCounts prompt_counts_;
  Reliability* reliability_ = nullptr;
  std::map<Key, SharedSpeculation> shared_;
  std::map<std::string, DynaTreeHistory> dynatree_histories_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SHARED_LEARNING_H_
