#include "tools/bench/peak_memory.h"

#include <fstream>
#include <string>

namespace bastion {

void ResetPeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

int64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kilobytes = 0;
    if (key == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace bastion
