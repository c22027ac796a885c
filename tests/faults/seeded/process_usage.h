// What a process uses, as /proc says. Thread-safe.
#ifndef BASTION_TESTS_FAULTS_SEEDED_PROCESS_USAGE_H_
#define BASTION_TESTS_FAULTS_SEEDED_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>

namespace bastion::testing {

struct ProcessUsage {
  int threads = 0;
  int descriptors = 0;
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
};

// Zeros if the process does not exist.
[[nodiscard]] ProcessUsage ReadUsage(pid_t process);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_PROCESS_USAGE_H_
