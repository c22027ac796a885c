// A library for LD_PRELOAD that shifts the wall clock of a process, as if an operator or NTP had
// set it. The environment variable BASTION_CLOCK_SHIFT names a file with the shift: nanoseconds, an
// int64_t. The shift may change at any time (shifted_clock.h).
//
// The services and their libraries read the wall clock with clock_gettime, gettimeofday and time,
// and wait for times of that clock with futexes. The monotonic clock does not change.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
// The kernel does not know the shift, so long waits end now and then to see whether it changed.
constexpr int64_t kLongestWait = kSecond / 20;

using SyscallFunction = long (*)(long, ...);
using ClockFunction = int (*)(clockid_t, timespec*);

// The function that this library replaces. The guard of a local static would be wrong here: a
// thread that waits for it calls syscall().
template <typename Function>
Function Real(const char* name, std::atomic<Function>& found) {
  Function function = found.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    found.store(function, std::memory_order_relaxed);
  }
  return function;
}

std::atomic<SyscallFunction> real_syscall{nullptr};
std::atomic<ClockFunction> real_clock{nullptr};

const std::atomic<int64_t>* MapShift() {
  static const std::atomic<int64_t> none{0};
  const char* const name = std::getenv("BASTION_CLOCK_SHIFT");
  const int file = name == nullptr ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return &none;
  void* const data = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return data == MAP_FAILED ? &none : static_cast<const std::atomic<int64_t>*>(data);
}

int64_t Shift() {
  static const std::atomic<int64_t>* const shift = MapShift();
  return shift->load(std::memory_order_relaxed);
}

int RealClock(clockid_t clock, timespec* time) {
  return Real("clock_gettime", real_clock)(clock, time);
}

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
timespec Timespec(int64_t nanoseconds) {
  return {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
}

int64_t ShiftedNow() {
  timespec now;
  RealClock(CLOCK_REALTIME, &now);
  return Nanoseconds(now) + Shift();
}

bool WaitsForWallClock(int operation) {
  return (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
         (operation & FUTEX_CLOCK_REALTIME) != 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = RealClock(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *time = Timespec(Nanoseconds(*time) + Shift());
  }
  return result;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const int64_t now = ShiftedNow();
  time->tv_sec = now / kSecond;
  time->tv_usec = now % kSecond / 1000;
  return 0;
}

time_t time(time_t* result) noexcept {
  const time_t now = ShiftedNow() / kSecond;
  if (result != nullptr) *result = now;
  return now;
}

long syscall(long number, ...) noexcept {
  const SyscallFunction real = Real("syscall", real_syscall);
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  auto& [word, operation, value, deadline, word2, bits] = arguments;
  if (number != SYS_futex || !WaitsForWallClock(static_cast<int>(operation)) || deadline == 0) {
    return real(number, word, operation, value, deadline, word2, bits);
  }
  const int64_t end = Nanoseconds(*reinterpret_cast<const timespec*>(deadline));
  for (;;) {
    const int64_t left = std::min(end - ShiftedNow(), kLongestWait);
    const timespec until = Timespec(std::max(ShiftedNow() - Shift() + left, int64_t{0}));
    const long result = real(number, word, operation, value, &until, word2, bits);
    if (result == 0 || errno != ETIMEDOUT || ShiftedNow() >= end) return result;
  }
}

}  // extern "C"
