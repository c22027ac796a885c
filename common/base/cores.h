// The CPU cores that this process may use. Thread-safe.
#ifndef BASTION_COMMON_BASE_CORES_H_
#define BASTION_COMMON_BASE_CORES_H_

#include <thread>
#include <vector>

namespace bastion {

// Numbers of the cores that the calling thread may run on, in ascending order. Never empty.
[[nodiscard]] std::vector<int> UsableCores();

// Restricts `thread` to `core`. Does nothing if the system call fails.
void PinThread(int core, std::thread& thread);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_CORES_H_
