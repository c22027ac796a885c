// Leaks: compares what idle services use with what they used when they were idle for the first
// time. Thread-compatible.
#ifndef BASTION_TESTS_FAULTS_SEEDED_LEAKS_H_
#define BASTION_TESTS_FAULTS_SEEDED_LEAKS_H_

#include <array>
#include <string>
#include <vector>

#include "tests/faults/seeded/process_usage.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {

class Leaks {
 public:
  // gRPC keeps a few idle threads and connections, and closes them later.
  static constexpr int kThreads = 6, kDescriptors = 8;
  // Caches fill, and the allocator keeps freed memory.
  static constexpr int64_t kBytes = int64_t{64} << 20;
  // How long services may take to give back what they used.
  static constexpr absl::Duration kSettle = absl::Seconds(10);

  explicit Leaks(Replica& replica) : replica_(replica) {}

  // What the services still use although no request runs; empty: nothing. The first check after the
  // start of a service only remembers its threads, descriptors and memory. It may last kSettle.
  [[nodiscard]] std::vector<std::string> Check();
  // The usage at the last check, as one line.
  [[nodiscard]] std::string Usage() const;

 private:
  struct Baseline {
    int start = 0;  // Number of the start of the service that it belongs to.
    ProcessUsage usage;
  };

  [[nodiscard]] std::vector<std::string> Find();
  void CompareProcess(Service service, std::vector<std::string>& leaks);

  Replica& replica_;
  std::array<Baseline, 3> baselines_;
  std::array<ProcessUsage, 3> last_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_LEAKS_H_
