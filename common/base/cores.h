// The cores of this machine that are ours.
#ifndef BASTION_COMMON_BASE_CORES_H_
#define BASTION_COMMON_BASE_CORES_H_

#include <thread>
#include <vector>

namespace bastion {

// Numbers of the cores that the calling thread may run on, ascending; never empty.
[[nodiscard]] std::vector<int> UsableCores();

// From now on `thread` runs on `core` alone, if the system lets it.
void PinTo(int core, std::thread& thread);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_CORES_H_
