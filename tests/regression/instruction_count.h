// Counts the instructions of a piece of code, one by one: slow (about a microsecond each), and the
// same on every run, where a clock and even a hardware counter are not.
#ifndef BASTION_TESTS_REGRESSION_INSTRUCTION_COUNT_H_
#define BASTION_TESTS_REGRESSION_INSTRUCTION_COUNT_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace bastion::testing {

// Runs `code` in a child process that is stepped through. The child has this thread alone, and what
// it does to memory stays there. UNAVAILABLE where a process may not trace its child.
[[nodiscard]] absl::StatusOr<int64_t> CountInstructions(const std::function<void()>& code);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_REGRESSION_INSTRUCTION_COUNT_H_
