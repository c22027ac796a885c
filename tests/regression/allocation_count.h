// Counts the allocations of this program. allocation_count.cc replaces the allocator functions of
// the whole program that it is linked into.
#ifndef BASTION_TESTS_REGRESSION_ALLOCATION_COUNT_H_
#define BASTION_TESTS_REGRESSION_ALLOCATION_COUNT_H_

#include <cstdint>

namespace bastion::testing {

struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;
};

// All allocations since the program started, over all threads.
[[nodiscard]] Allocations AllocationsSoFar();

}  // namespace bastion::testing

#endif  // BASTION_TESTS_REGRESSION_ALLOCATION_COUNT_H_
