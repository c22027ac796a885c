// ShiftedClock: sets the wall clock of a process that runs with the library clock_shift.
// Thread-safe.
#ifndef BASTION_TESTS_FAULTS_SEEDED_SHIFTED_CLOCK_H_
#define BASTION_TESTS_FAULTS_SEEDED_SHIFTED_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace bastion::testing {

class ShiftedClock {
 public:
  // Creates `file`, which holds the shift.
  explicit ShiftedClock(const std::string& file);
  ~ShiftedClock();
  ShiftedClock(const ShiftedClock&) = delete;

  // The clock of the process shows the machine's time plus `shift`.
  void Set(absl::Duration shift) { shift_->store(absl::ToInt64Nanoseconds(shift)); }

  // Environment variables for the process.
  [[nodiscard]] std::vector<std::string> Environment() const;

 private:
  const std::string file_;
  std::atomic<int64_t>* shift_;  // Nanoseconds, in the mapped file.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_SHIFTED_CLOCK_H_
