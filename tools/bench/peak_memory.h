// The largest resident memory of this process, from /proc. Not thread-safe.
#ifndef BASTION_TOOLS_BENCH_PEAK_MEMORY_H_
#define BASTION_TOOLS_BENCH_PEAK_MEMORY_H_

#include <cstdint>

namespace bastion {

// Lets the peak begin again at the memory that is resident now. Without permission to write
// /proc/self/clear_refs, the peak remains that of the whole process.
void ResetPeakMemory();

// Bytes. The largest resident memory since the last reset. 0 if the system does not report it.
[[nodiscard]] int64_t PeakMemory();

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_PEAK_MEMORY_H_
