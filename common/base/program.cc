#include "common/base/program.h"

#include <cstdio>
#include <exception>
#include <filesystem>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/synchronization/mutex.h"
#include "common/base/flag_names.h"

namespace bastion {

int RunProgram(int argc, char** argv, const char* usage,
               absl::FunctionRef<absl::Status(const std::vector<char*>& arguments)> run) {
  absl::SetProgramUsageMessage(usage);
  // Debian builds Abseil with it, and gRPC pays for it at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  UnderscoreFlagNames(argc, argv);
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  absl::Status status;
  try {
    status = run(arguments);
  } catch (const std::exception& error) {
    status = absl::ResourceExhaustedError(error.what());
  }
  if (status.ok()) return 0;
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
  return 1;
}

}  // namespace bastion
