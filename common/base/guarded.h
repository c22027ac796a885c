// RunGuarded: keeps exceptions inside a piece of work. An exception that leaves a thread's function
// would end the process. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_GUARDED_H_
#define BASTION_COMMON_BASE_GUARDED_H_

#include "absl/functional/function_ref.h"

namespace bastion {

// Calls `work`. If it throws, logs "`what` failed" with the reason, and returns false.
bool RunGuarded(const char* what, absl::FunctionRef<void()> work);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_GUARDED_H_
