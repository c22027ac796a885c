// Starts the process that names functions in the reports of sanitizers.
#ifndef BASTION_TESTS_SUPPORT_START_SYMBOLIZER_H_
#define BASTION_TESTS_SUPPORT_START_SYMBOLIZER_H_

#include <array>

#include "absl/base/config.h"

#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace bastion::testing {

// A test that leaves its own process without descriptors calls this first. The sanitizer starts the
// process at its first report, which needs descriptors. Without it the suppressions of tsan.supp
// match nothing. Does nothing in builds without the thread sanitizer.
inline void StartSymbolizer() {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  std::array<char, 256> name;
  __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name.data(), name.size());
#endif
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_START_SYMBOLIZER_H_
