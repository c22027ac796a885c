#include <spawn.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "client/bench/report.h"

extern char** environ;

namespace bastion {

absl::Status DrawPlots(const std::string& folder) {
  std::string python = absl::StrCat(BASTION_SOURCE_DIR, "/build/venv/bin/python");
  std::string script = absl::StrCat(BASTION_SOURCE_DIR, "/deploy/measure/plots.py");
  std::string report = folder;
  char* arguments[] = {python.data(), script.data(), report.data(), nullptr};
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, python.c_str(), nullptr, nullptr, arguments, environ) == 0) {
    waitpid(child, &status, 0);
  }
  if (status == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot draw plots: run deploy/local/setup.sh, then build/venv/bin/python "
                   "deploy/measure/plots.py ",
                   folder));
}

}  // namespace bastion
