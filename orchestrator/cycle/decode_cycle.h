// DecodeCycle: draft → tree → verify → commit, for a batch of sequences.
//
// Thread-compatible: used by one thread, "the cycle's thread".
#ifndef BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_
#define BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_

#include <vector>

#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/forest_grower.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

// The sequences of one step. Not owned.
using Batch = std::vector<DecodeSequence*>;

class DecodeCycle {
 public:
  // Owns nothing; all pointers must outlive this object. `target` is the verifier's Info().
  DecodeCycle(const TargetInfo& target, Drafter* drafter, Verifier* verifier, CostModel* costs,
              const Clock* clock = &Clock::Real())
      : grower_(target, drafter, costs, clock),
        verifier_(verifier),
        costs_(costs),
        clock_(clock),
        vocabulary_(target.dims.vocabulary) {}

  // Opens the sequence at the verifier. An error fails the sequence.
  void Open(DecodeSequence& sequence);

  // Commits the next prompt tokens, at most `max_tokens`. Returns true if some remain. An error
  // fails the sequence.
  [[nodiscard]] bool Prefill(DecodeSequence& sequence, int max_tokens);

  // Runs one cycle for all sequences of `batch`. Each sequence either gains tokens or fails
  // individually; see DecodeSequence::status(). Returns an error if the verify call failed; then
  // the verifier's state of all these sequences is unknown. REQUIRES: each sequence is prefilled
  // and not done.
  [[nodiscard]] absl::Status Step(const Batch& batch);

  // Frees the state of the sequence at the verifier and, if its policy drafts, at `drafter`.
  void Close(const DecodeSequence& sequence, Drafter& drafter);

  // The error of the last draft request; OK if it succeeded.
  [[nodiscard]] const absl::Status& draft_status() const { return draft_status_; }

  // The verifier's audit counts, as of its last reply.
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
