#include "tests/regression/instruction_count.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace bastion::testing {
namespace {

// The child raises these signals where the code begins and ends.
constexpr int kBegin = SIGUSR1, kEnd = SIGUSR2;

[[noreturn]] void RunTraced(const std::function<void()>& code) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
  std::raise(kBegin);
  code();
  std::raise(kEnd);
  _exit(0);
}

// Continues the child with `request` until it stops again. Returns the signal that stopped it, or 0
// if it has ended.
int Resume(pid_t child, __ptrace_request request) {
  int status = 0;
  if (ptrace(request, child, nullptr, nullptr) != 0) return 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 0;
  return WSTOPSIG(status);
}

}  // namespace

absl::StatusOr<int64_t> CountInstructions(const std::function<void()>& code) {
  const pid_t child = fork();
  if (child < 0) return absl::UnavailableError(absl::StrCat("fork: ", std::strerror(errno)));
  if (child == 0) RunTraced(code);
  int status = 0;
  const bool begun =
      waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == kBegin;
  if (!begun) {
    return absl::UnavailableError("this process may not trace its child (ptrace is not permitted)");
  }
  int64_t steps = 0;
  int signal = SIGTRAP;
  while (signal == SIGTRAP) {
    signal = Resume(child, PTRACE_SINGLESTEP);
    ++steps;
  }
  if (signal != 0) {  // The child is stopped, not ended.
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  if (signal == kEnd) return steps;
  return absl::InternalError(absl::StrCat("the counted code stopped with signal ", signal));
}

}  // namespace bastion::testing
