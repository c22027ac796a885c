// DecodeCycle: draft → tree → verify → commit, for a batch of sequences. The verify call also
// commits prompt tokens of other sequences.
//
// Thread-compatible: used by one thread, "the cycle's thread".
#ifndef BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_
#define BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_

#include <vector>

#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/cycle_summary.h"
#include "orchestrator/cycle/forest_grower.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

// The sequences of one step. Not owned.
using Batch = std::vector<DecodeSequence*>;

// The next `tokens` tokens of a prompt. The sequence is not owned.
struct PromptChunk {
  DecodeSequence* sequence;
  int tokens;
};

class DecodeCycle {
 public:
  // Owns nothing; all pointers must outlive this object. `target` is the verifier's Info().
  DecodeCycle(const TargetInfo& target, Drafter* drafter, Verifier* verifier, CostModel* costs,
              const Clock* clock = &Clock::Real())
      : target_(target),
        grower_(target, drafter, costs, clock),
        verifier_(verifier),
        costs_(costs),
        clock_(clock),
        free_kv_tokens_(target.kv_tokens) {}

  // Opens the sequence at the verifier, and reuses what the verifier already has of its prompt. An
  // error fails the sequence.
  void Open(DecodeSequence& sequence);
  // Like Open, but returns an error if the verifier did not answer. The sequence has not failed
  // then, and may be opened again with a higher epoch.
  [[nodiscard]] absl::Status TryOpen(DecodeSequence& sequence);

  // Runs one cycle for all sequences of `batch`, and commits `prompts` in the same forward. A
  // sequence of `batch` gains tokens, one of `prompts` comes nearer to its first cycle. A sequence
  // for which the verifier has no room is starved (DecodeSequence::starved()). Any other error of a
  // sequence fails it alone (DecodeSequence::status()). Returns an error if the verify call failed;
  // then the verifier's state of all these sequences is unknown.
  //
  // The roots of `batch` come first, then the prompts, then the nodes: prompts that do not fit into
  // the forward beside the roots are shortened, and trees grow into what is left. `waiting` is the
  // number of further sequences that have begun, and whose prompts are not processed yet: a longer
  // cycle delays them too.
  //
  // REQUIRES: no sequence occurs twice or is done; at least one is given. Those of `batch` have
  // prompt_left() == 0, those of `prompts` have more. batch.size() <= TargetInfo::max_rows.
  [[nodiscard]] absl::Status Step(const Batch& batch, absl::Span<const PromptChunk> prompts = {},
                                  int waiting = 0);

  // Commits the next prompt tokens, at most `max_tokens`, in a forward of their own. Returns true
  // if some remain. An error fails the sequence, also if the verifier has no room for it.
  [[nodiscard]] bool Prefill(DecodeSequence& sequence, int max_tokens);

  // Frees the state of the sequence at the verifier and, if its policy drafts, at `drafter`.
  void Close(const DecodeSequence& sequence, Drafter& drafter);

  // See ForestPlanner::FixPrice.
  void FixPrice(double tokens_per_second) { grower_.FixPrice(tokens_per_second); }

  // The error of the last draft request; OK if it succeeded.
  [[nodiscard]] const absl::Status& draft_status() const { return draft_status_; }

  // The last successful Step.
  [[nodiscard]] const CycleSummary& last() const { return last_; }

  // The verifier's audit counts, as of its last reply.
  [[nodiscard]] const AuditCounts& audit() const { return audit_; }

  // Tokens that fit into the free pages of the verifier's KV cache, as of its last reply. The
  // capacity before the first reply.
  [[nodiscard]] int free_kv_tokens() const { return free_kv_tokens_; }

 private:
  // Open, without the handling of errors.
  [[nodiscard]] absl::Status OpenAndReuse(DecodeSequence& sequence);

  // The prompt tokens of one step.
  struct Prompts {
    std::vector<DecodeSequence*> sequences;
    std::vector<PrefillItem> items;  // One per sequence.
    PromptSize size;
  };

  // Takes the next tokens of `chunks`, at most `max_rows` together.
  [[nodiscard]] static Prompts TakePrompts(absl::Span<const PromptChunk> chunks, int max_rows);
  // Applies the reply to the cycle's verify call, and learns from it.
  void Commit(const Batch& batch, const Prompts& prompts, const GrownForest& grown,
              VerifyResult result, absl::Duration round_trip);
  // Applies the outcome of one tree. Returns the number of committed tokens.
  [[nodiscard]] int CommitTree(DecodeSequence& sequence, const GrownTree& grown,
                               const VerifyOutcome& outcome, const CycleRecord& record) const;

  const TargetInfo target_;
  ForestGrower grower_;
  Verifier* const verifier_;
  CostModel* const costs_;
  const Clock* const clock_;
  absl::Status draft_status_;
  CycleSummary last_;
  AuditCounts audit_;
  int free_kv_tokens_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_DECODE_CYCLE_H_
