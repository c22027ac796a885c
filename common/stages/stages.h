// The two borders of the decode cycle. Three kinds of implementation stand behind each: over gRPC
// (orchestrator/remote), in process (client/bench), and fakes (tests/support); one conformance
// suite runs on all of them (tests/conformance).
//
// Both are used from one thread, the cycle's.
#ifndef BASTION_COMMON_STAGES_STAGES_H_
#define BASTION_COMMON_STAGES_STAGES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"

namespace bastion {

// Guesses. A drafter's failure or lateness is never an error of the request: callers treat a non-OK
// status like empty marginals.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // UNAVAILABLE while the drafter is not there.
  [[nodiscard]] virtual absl::StatusOr<DrafterInfo> Info() = 0;
  // One Draft per frontier, in order.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Draft>> Expand(
      absl::Span<const Frontier> frontiers) = 0;
  // Frees the sequence's state; unknown sequences are fine.
  virtual void Close(SequenceId sequence) = 0;
};

// Decides. A non-OK status of a call means that nothing is known about the sequences in it any
// more: they must be failed or opened anew under a higher epoch.
class Verifier {
 public:
  virtual ~Verifier() = default;
  [[nodiscard]] virtual absl::StatusOr<TargetInfo> Info() = 0;
  // ALREADY_EXISTS / FAILED_PRECONDITION for a live or stale {session, epoch};
  // RESOURCE_EXHAUSTED when no more sequences fit.
  [[nodiscard]] virtual absl::Status Open(SequenceId sequence, const SamplingParams& sampling) = 0;
  // Commits prompt tokens in chunks of the verifier's choosing.
  [[nodiscard]] virtual absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) = 0;
  // One forward over all rows; replies after its own commit.
  [[nodiscard]] virtual absl::StatusOr<VerifyResult> Verify(const Forest& forest) = 0;
  virtual void Close(SequenceId sequence) = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_STAGES_H_
