// Drafter and Verifier: the two interfaces that the decode cycle calls. Each has three kinds of
// implementation: over gRPC or shared memory (orchestrator/remote), in process (the services'
// engines, see client/inprocess), and fakes for tests (tests/support). One conformance suite runs
// on all of them (tests/conformance).
//
// Thread-compatible. The cycle calls both from one thread.
#ifndef BASTION_COMMON_STAGES_STAGES_H_
#define BASTION_COMMON_STAGES_STAGES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"

namespace bastion {

// Predicts the next tokens of sequences. A failed or late drafter never fails a request: callers
// treat a non-OK status like empty marginals.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // UNAVAILABLE while the drafter cannot be reached.
  [[nodiscard]] virtual absl::StatusOr<DrafterInfo> Info() = 0;
  // Returns one Draft per frontier, in order.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Draft>> Expand(
      absl::Span<const Frontier> frontiers) = 0;
  // Frees the state of the sequence. Ignores an unknown sequence.
  virtual void Close(SequenceId sequence) = 0;
};

// Chooses tokens with the target model. After a non-OK status, the state of every sequence in the
// call is unknown: the caller must fail these sequences or open them again with a higher epoch.
class Verifier {
 public:
  virtual ~Verifier() = default;
  [[nodiscard]] virtual absl::StatusOr<TargetInfo> Info() = 0;
  // ALREADY_EXISTS for a live {session, epoch}, FAILED_PRECONDITION for a stale one,
  // RESOURCE_EXHAUSTED if no more sequences fit.
  [[nodiscard]] virtual absl::Status Open(SequenceId sequence, const SamplingParams& sampling) = 0;
  // Commits prompt tokens. The verifier chooses the size of the chunks.
  [[nodiscard]] virtual absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) = 0;
  // Runs one forward over the rows of all trees, then accepts nodes and commits them.
  [[nodiscard]] virtual absl::StatusOr<VerifyResult> Verify(const Forest& forest) = 0;
  // Frees the state of the sequence. Ignores an unknown sequence.
  virtual void Close(SequenceId sequence) = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_STAGES_H_
