#include "tests/faults/seeded/shared_memory_damage.h"

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/shm/shared_ring.h"

namespace bastion::testing {
namespace {

// No reader has read this much.
constexpr uint64_t kImpossible = uint64_t{1} << 62;

// The first address of each segment that a process has mapped, by inode. `writable`: as its owner.
std::map<std::string, uintptr_t> Segments(pid_t process, bool writable) {
  std::map<std::string, uintptr_t> segments;
  std::ifstream maps(absl::StrCat("/proc/", process, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:bastion") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string range, access, offset, device, inode;
    fields >> range >> access >> offset >> device >> inode;
    if ((access == "rw-s") == writable) segments[inode] = std::stoull(range, nullptr, 16);
  }
  return segments;
}

}  // namespace

SharedMemoryDamage::SharedMemoryDamage(pid_t owner, pid_t peer)
    : owner_(owner), peer_(peer), thread_([this] { Main(); }) {}

SharedMemoryDamage::~SharedMemoryDamage() {
  stopping_ = true;
  thread_.join();
}

void SharedMemoryDamage::Main() {
  while (!stopping_) {
    const auto read_by_peer = Segments(peer_, /*writable=*/false);
    for (const auto& [inode, address] : Segments(owner_, /*writable=*/true)) {
      if (!read_by_peer.contains(inode)) continue;
      uint64_t value = kImpossible;
      const iovec from = {&value, sizeof(value)};
      const iovec to = {
          reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr): of another process
              address + offsetof(wire::SharedCounters, ack)),
          sizeof(value)};
      if (process_vm_writev(owner_, &from, 1, &to, 1, 0) > 0) ++hits_;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace bastion::testing
