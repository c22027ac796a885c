// Later turns: the prompts of a conversation after its first turn (MT-Bench has two turns).
//
// Speculation does not change the text, so each arm would give the same answer to a turn. One arm
// answers the earlier turns before the measurement, and every turn becomes a prompt of its own.
#ifndef BASTION_TOOLS_BENCH_LATER_TURNS_H_
#define BASTION_TOOLS_BENCH_LATER_TURNS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tools/bench/arm.h"
#include "tools/bench/measurement.h"
#include "tools/bench/prompt_text.h"

namespace bastion {

// Returns the answer to a prompt.
using AnswerFunction =
    absl::FunctionRef<absl::StatusOr<std::vector<TokenId>>(const BenchPrompt& prompt)>;

// True if a prompt has later turns.
[[nodiscard]] bool HasLaterTurns(const std::vector<BenchPrompt>& prompts);

// The tokens that the arm generates after the prompt.
[[nodiscard]] absl::StatusOr<std::vector<TokenId>> Answer(const BenchPrompt& prompt,
                                                          const BenchSettings& settings, Arm& arm);

// Returns `prompts`, each followed by one prompt for each later turn: "ID-turn-2", "ID-turn-3", …
// Errors name the prompt.
[[nodiscard]] absl::StatusOr<std::vector<BenchPrompt>> WithLaterTurns(
    const std::vector<BenchPrompt>& prompts, PromptText& text, AnswerFunction answer);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LATER_TURNS_H_
