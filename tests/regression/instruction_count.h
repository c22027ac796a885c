// Counts the instructions of a piece of code by single-stepping. This is slow (about a microsecond
// per instruction), but gives the same count on every run, unlike a clock or a hardware counter.
#ifndef BASTION_TESTS_REGRESSION_INSTRUCTION_COUNT_H_
#define BASTION_TESTS_REGRESSION_INSTRUCTION_COUNT_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace bastion::testing {

// Runs `code` in a child process and single-steps it. The child contains only the calling thread,
// and its changes to memory are not visible here. UNAVAILABLE if tracing is not permitted.
[[nodiscard]] absl::StatusOr<int64_t> CountInstructions(const std::function<void()>& code);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_REGRESSION_INSTRUCTION_COUNT_H_
