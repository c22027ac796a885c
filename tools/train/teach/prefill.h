// Runs the target over whole texts with the serving engine.
#ifndef BASTION_TOOLS_TRAIN_TEACH_PREFILL_H_
#define BASTION_TOOLS_TRAIN_TEACH_PREFILL_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::train {

struct PrefillText {
  SequenceId sequence;  // Open, without tokens.
  absl::Span<const TokenId> tokens;
};

// Commits all tokens of the texts, as many rows at a time as the engine takes. Errors: the
// engine's.
[[nodiscard]] absl::Status Prefill(verifier::VerifierEngine& engine,
                                   absl::Span<const PrefillText> texts);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_TEACH_PREFILL_H_
