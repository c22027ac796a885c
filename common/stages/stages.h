// Drafter and Verifier: the two interfaces that the decode cycle calls. Each has three kinds of
// implementation: over gRPC or shared memory (orchestrator/remote), in process (the services'
// engines, see tools/inprocess), and fakes for tests (tests/support). One conformance suite runs
// on all of them (tests/conformance).
//
// Thread-compatible. The cycle calls both from one thread.
#ifndef BASTION_COMMON_STAGES_STAGES_H_
#define BASTION_COMMON_STAGES_STAGES_H_

#include <vector>

#include "absl/functional/function_ref.h"
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
  // Returns one Draft per frontier, in order. A session may occur once. A frontier that is refused
  // (Draft::status) does not affect the others.
  [[nodiscard]] virtual absl::StatusOr<DraftResult> Expand(
      absl::Span<const Frontier> frontiers) = 0;
  // Frees the state of the sequence. Ignores an unknown sequence.
  virtual void Close(SequenceId sequence) = 0;
};

// Chooses tokens with the target model. After a non-OK status, the state of every sequence in the
// call is unknown: the caller must fail these sequences or open them again with a higher epoch.
//
// The KV cache has pages of TargetInfo::page_tokens tokens. A call reserves pages for the roots of
// all trees, then for the whole trees in order, then for the prompts in order. What does not fit is
// reduced or left out, so speculation never fails a sequence that plain decoding would continue:
//   - A tree whose nodes do not fit is verified as its root alone. Its path is then empty.
//   - A tree whose root does not fit, or a prompt that does not fit, is RESOURCE_EXHAUSTED. The
//     state of its sequence does not change, so the same item may be sent again later. The other
//     sequences of the call are not affected.
// After the call, every sequence occupies only the pages that its committed tokens need. Sequences
// that began with ReusePrefix share the full pages of equal beginnings, and leave their pages
// behind for later sequences. Pages that only wait for this count as free.
class Verifier {
 public:
  virtual ~Verifier() = default;
  [[nodiscard]] virtual absl::StatusOr<TargetInfo> Info() = 0;
  // ALREADY_EXISTS for a live {session, epoch}, FAILED_PRECONDITION for a stale one,
  // RESOURCE_EXHAUSTED if no more sequences fit.
  [[nodiscard]] virtual absl::Status Open(SequenceId sequence, const SamplingParams& sampling) = 0;
  // Commits as many tokens of `item` as full pages with their keys, values and features are
  // available, and returns their number. The caller prefills the others. Lets later sequences with
  // this salt reuse the pages of this one. FAILED_PRECONDITION if a token is already committed.
  // NOT_FOUND and FAILED_PRECONDITION as for Verify.
  [[nodiscard]] virtual absl::StatusOr<int> ReusePrefix(const PrefixItem& item) = 0;
  // Runs one forward over the rows of all trees and prompts, trees first. Accepts nodes and commits
  // them, and commits the prompts without choosing a token after them. Either list may be empty. A
  // sequence may occur once. INVALID_ARGUMENT for more than TargetInfo::max_rows rows; the call
  // then changes nothing.
  [[nodiscard]] virtual absl::StatusOr<VerifyResult> Verify(
      const Forest& forest, absl::Span<const PrefillItem> prompts) = 0;
  // Frees the state of the sequence. Ignores an unknown sequence.
  virtual void Close(SequenceId sequence) = 0;

  // UNAVAILABLE if the verifier is known to be lost: it ended, hangs, or another one took its
  // place. All its sequences are lost then. Does not block. After Info() succeeds, it is OK again.
  [[nodiscard]] virtual absl::Status CheckAlive() { return absl::OkStatus(); }
  // Tells how long the next Verify is predicted to take, to recognize one that hangs.
  virtual void ExpectVerify(absl::Duration /*predicted*/) {}

  // Commits the tokens of `item` in as many Verify calls as they need. An error ends it; the tokens
  // of the calls before it stay committed. Returns the sum of all calls.
  [[nodiscard]] absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item);
};

// Verifies one prompt alone.
using VerifyPrompt = absl::FunctionRef<absl::StatusOr<VerifyResult>(const PrefillItem& prompt)>;

// Commits the tokens of `item` through `verify`, in chunks of at most `max_rows` tokens. See
// Verifier::Prefill.
[[nodiscard]] absl::StatusOr<TimingTrace> PrefillInChunks(const PrefillItem& item, int max_rows,
                                                          VerifyPrompt verify);

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_STAGES_H_
