#include "common/base/program.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>

#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_writer.h"
#include "common/base/status.h"
#include "common/base/version.h"

namespace bastion {
namespace {

absl::Status ParseAndRun(int argc, char** argv, const std::string& program, const ProgramInfo& info,
                         absl::FunctionRef<absl::Status(const std::vector<char*>&)> run) {
  UnderscoreFlagNames(argc, argv);
  RenameOldFlags(argc, argv);
  RETURN_IF_ERROR(CheckFlagNames(argc, argv));
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  RETURN_IF_ERROR(CheckRequiredFlags(program, info));
  RETURN_IF_ERROR(CheckAddressFlags(info));
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(error.what());
  }
}

// Every connection needs a descriptor. The usual limit of 1024 is for programs that use select().
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The allocator gives threads heaps of their own, up to 8 per core. Threads come and go with calls,
// and every heap keeps the pages of its largest moment, so that memory would grow for hours.
void LimitHeaps() { mallopt(M_ARENA_MAX, 4); }

}  // namespace

int RunProgram(int argc, char** argv, const ProgramInfo& info,
               absl::FunctionRef<absl::Status(const std::vector<char*>& arguments)> run) {
  // Debian builds Abseil with deadlock detection, which slows down every lock in gRPC.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  RaiseDescriptorLimit();
  LimitHeaps();
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  if (HasArgument(argc, argv, "--help", "-h")) {
    std::cout << HelpText(program, info) << std::flush;
    return 0;
  }
  if (HasArgument(argc, argv, "--version", "-V")) {
    std::cout << program << " " << kVersion << "\n";
    return 0;
  }
  const absl::Status status = ParseAndRun(argc, argv, program, info, run);
  if (status.ok()) return 0;
  // One line, without details that only programs can read.
  std::string line = status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  std::replace(line.begin(), line.end(), '\n', ' ');
  base::WriteLog(absl::StrCat(program, ": ", line, "\n"));
  return 1;
}

}  // namespace bastion
