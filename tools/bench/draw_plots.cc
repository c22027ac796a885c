#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tools/bench/report.h"

extern char** environ;

namespace bastion {

absl::Status DrawPlots(const std::string& sources, const std::string& folder) {
  std::string python = absl::StrCat(sources, "/build/venv/bin/python");
  if (access(python.c_str(), X_OK) != 0) python = "python3";
  std::string script = absl::StrCat(sources, "/deploy/measure/plots.py");
  std::string report = folder;
  char* arguments[] = {python.data(), script.data(), report.data(), nullptr};
  pid_t child = 0;
  int status = -1;
  if (posix_spawnp(&child, python.c_str(), nullptr, nullptr, arguments, environ) == 0) {
    waitpid(child, &status, 0);
  }
  if (status == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot draw plots; run ", python, " ", script, " ", folder,
                   " with a Python that has matplotlib (deploy/local/setup.sh installs one)"));
}

}  // namespace bastion
