#include "common/base/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace bastion {
namespace {

// Limits of a container's memory in control groups of version 2 and 1. "max" or a huge number:
// none.
constexpr const char* kLimitFiles[] = {"/sys/fs/cgroup/memory.max",
                                       "/sys/fs/cgroup/memory/memory.limit_in_bytes"};

std::string ReadFile(const char* path) {
  std::ifstream stream(path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

int64_t MeminfoBytes(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == key + ":") return kilobytes * 1024;
  }
  return 0;
}

int64_t AvailableMemory() {
  int64_t available = MeminfoBytes(ReadFile("/proc/meminfo"), "MemAvailable");
  for (const char* const path : kLimitFiles) {
    std::istringstream file(ReadFile(path));
    int64_t limit = 0;
    if (file >> limit && limit > 0) available = std::min(available, limit);
  }
  return available;
}

}  // namespace bastion
