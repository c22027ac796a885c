// The decode cycle: draft → tree → verify → commit, for a batch of sequences. One is no special
// case.
//
// Thread-compatible: one thread calls Step.
#ifndef BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_
#define BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_

#include <vector>

#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/forest_grower.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

// The sequences that take part in a step. Not owned.
using Batch = std::vector<DecodeSequence*>;

class DecodeCycle {
 public:
  // Nothing is owned; `target` is the verifier's Info().
  DecodeCycle(const TargetInfo& target, Drafter* drafter, Verifier* verifier, CostModel* costs,
              const Clock* clock = &Clock::Real())
      : grower_(target, drafter, costs, clock),
        verifier_(verifier),
        costs_(costs),
        clock_(clock),
        vocabulary_(target.dims.vocabulary) {}

  // Opens the sequence at the verifier. A failure is the sequence's.
  void Open(DecodeSequence& sequence);

  // Commits up to `most` prompt tokens; true while some are left. A failure is the sequence's.
  [[nodiscard]] bool Prefill(DecodeSequence& sequence, int most);

  // One cycle for all of `batch`: each sequence gets tokens, or fails alone through its status.
  // REQUIRES: prefilled, not done. An error means that the verifier lost them all.
  [[nodiscard]] absl::Status Step(const Batch& batch);

  // Frees the sequence everywhere.
  void Close(const DecodeSequence& sequence, Drafter& drafter);

  // Why the last asked-for draft was not there; OK when it was.
  [[nodiscard]] const absl::Status& draft_status() const { return draft_status_; }

  // What the verifier says of its audits.
  [[nodiscard]] const AuditCounts& audit() const { return audit_; }

 private:
  void Commit(const Batch& batch, const GrownForest& grown, const VerifyResult& result,
              absl::Duration round_trip);

  ForestGrower grower_;
  Verifier* const verifier_;
  CostModel* const costs_;
  const Clock* const clock_;
  const int vocabulary_;
  absl::Status draft_status_;
  AuditCounts audit_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_
