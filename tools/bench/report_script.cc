#include "tools/bench/report_script.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

extern char** environ;

namespace bastion {
namespace {

constexpr int kFormat = 1;

absl::StatusOr<std::string> CreateTemporaryFolder() {
  std::string folder = (std::filesystem::temp_directory_path() / "bastion-bench.XXXXXX").string();
  if (mkdtemp(folder.data()) != nullptr) return folder;
  return absl::UnavailableError(absl::StrCat("cannot create the folder ", folder,
                                             " for the measurements; name one with --report"));
}

}  // namespace

absl::Status CreateReportFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--report: cannot create the folder ", folder, " (",
                                             error.message(), "); choose another one"));
}

absl::Status WriteMeasurements(const std::string& kind, nlohmann::json measurements,
                               const std::string& folder) {
  measurements["format"] = kFormat;
  measurements["kind"] = kind;
  const std::filesystem::path path = std::filesystem::path(folder) / "measurements.json";
  std::ofstream file(path);
  file << measurements.dump() << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path.string(),
                   "; check that its folder exists, is writable and has free space"));
}

absl::Status RunReportScript(const std::string& sources, std::vector<std::string> arguments) {
  std::string python = absl::StrCat(sources, "/build/venv/bin/python");
  if (access(python.c_str(), X_OK) != 0) python = "python3";
  arguments.insert(arguments.begin(),
                   {python, absl::StrCat(sources, "/deploy/measure/bench_report.py")});
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::cout << std::flush;
  pid_t child = 0;
  int status = -1;
  if (posix_spawnp(&child, python.c_str(), nullptr, nullptr, argv.data(), environ) == 0) {
    waitpid(child, &status, 0);
  }
  if (status == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot make the report; run ", absl::StrJoin(arguments, " ")));
}

absl::Status MakeReport(const std::string& kind, nlohmann::json measurements,
                        const std::string& folder, const std::string& sources) {
  if (!folder.empty()) {
    RETURN_IF_ERROR(WriteMeasurements(kind, std::move(measurements), folder));
    return RunReportScript(sources, {folder});
  }
  ASSIGN_OR_RETURN(const std::string temporary, CreateTemporaryFolder());
  RETURN_IF_ERROR(WriteMeasurements(kind, std::move(measurements), temporary));
  RETURN_IF_ERROR(RunReportScript(sources, {"--tables", temporary}));
  std::error_code ignored;
  std::filesystem::remove_all(temporary, ignored);
  return absl::OkStatus();
}

}  // namespace bastion
