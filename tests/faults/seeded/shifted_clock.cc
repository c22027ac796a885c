#include "tests/faults/seeded/shifted_clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"

namespace bastion::testing {

ShiftedClock::ShiftedClock(const std::string& file) : file_(file) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK_GE(descriptor, 0) << file;
  CHECK_EQ(ftruncate(descriptor, sizeof(int64_t)), 0);
  void* const data =
      mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  CHECK(data != MAP_FAILED);
  close(descriptor);
  shift_ = static_cast<std::atomic<int64_t>*>(data);
}

ShiftedClock::~ShiftedClock() { munmap(shift_, sizeof(int64_t)); }

std::vector<std::string> ShiftedClock::Environment() const {
  return {std::string("LD_PRELOAD=") + BASTION_CLOCK_SHIFT_LIBRARY, "BASTION_CLOCK_SHIFT=" + file_};
}

}  // namespace bastion::testing
