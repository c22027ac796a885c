// Counts what this program allocates. Link allocation_count.cc into one test: it takes the place of
// the allocator's entry points for the whole program.
#ifndef BASTION_TESTS_REGRESSION_ALLOCATION_COUNT_H_
#define BASTION_TESTS_REGRESSION_ALLOCATION_COUNT_H_

#include <cstdint>

namespace bastion::testing {

struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;
};

// Since the program began, all threads together.
[[nodiscard]] Allocations AllocationsSoFar();

}  // namespace bastion::testing

#endif  // BASTION_TESTS_REGRESSION_ALLOCATION_COUNT_H_
