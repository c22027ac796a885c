// The memory that new processes can use. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_MACHINE_MEMORY_H_
#define BASTION_COMMON_BASE_MACHINE_MEMORY_H_

#include <cstdint>
#include <string>

namespace bastion {

// Bytes: the available memory of the machine or, if it is less, the limit of this container. 0 if
// the system does not tell.
[[nodiscard]] int64_t AvailableMemory();

// The bytes in the line `key` of a text in the format of /proc/meminfo ("MemAvailable:  123 kB").
// 0 if there is no such line.
[[nodiscard]] int64_t MeminfoBytes(const std::string& text, const std::string& key);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_MACHINE_MEMORY_H_
