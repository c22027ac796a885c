#include "tests/faults/seeded/process_usage.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace bastion::testing {

ProcessUsage ReadUsage(pid_t process) {
  ProcessUsage usage;
  const std::string folder = absl::StrCat("/proc/", process);
  std::ifstream status(folder + "/status");
  for (std::string name; status >> name;) {
    if (name == "Threads:") status >> usage.threads;
    // Kilobytes.
    if (name == "VmRSS:" && status >> usage.resident_bytes) usage.resident_bytes *= 1024;
    if (name == "VmSize:" && status >> usage.virtual_bytes) usage.virtual_bytes *= 1024;
  }
  std::error_code error;
  std::filesystem::directory_iterator files(folder + "/fd", error);
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    ++usage.descriptors;
  }
  return usage;
}

}  // namespace bastion::testing
