// Starts the process that names functions in the reports of sanitizers.
#ifndef BASTION_TESTS_SUPPORT_START_SYMBOLIZER_H_
#define BASTION_TESTS_SUPPORT_START_SYMBOLIZER_H_

#include <array>
#include <cstddef>

// From sanitizer/common_interface_defs.h. Null in builds without sanitizers.
extern "C" [[gnu::weak]] void __sanitizer_symbolize_pc(void* address, const char* format,
                                                       char* text, size_t size);

namespace bastion::testing {

// A test that leaves its own process without descriptors calls this first. The sanitizer starts the
// process at its first report, which needs descriptors. Without it the suppressions of tsan.supp
// match nothing. Does nothing in builds without sanitizers.
inline void StartSymbolizer() {
  std::array<char, 256> name;
  if (__sanitizer_symbolize_pc == nullptr) return;
  __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name.data(), name.size());
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_START_SYMBOLIZER_H_
