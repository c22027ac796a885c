#include "tests/support/service_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/prior/transition_file.h"

namespace bastion::testing {

ServiceProcess::ServiceProcess(const std::string& binary, std::vector<std::string> arguments,
                               const std::string& log, std::vector<std::string> environment) {
  const std::string path = std::string(BASTION_BINARY_DIR) + "/bin/" + binary;
  arguments.insert(arguments.begin(), path);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& variable : environment) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
  envp.push_back(nullptr);
  pid_ = fork();
  CHECK_GE(pid_, 0);
  if (pid_ > 0) return;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execve(path.c_str(), argv.data(), envp.data());
  _exit(127);
}

ServiceProcess::~ServiceProcess() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  Wait();
}

void ServiceProcess::Signal(int signal) const {
  CHECK_GT(pid_, 0);  // -1 means all processes.
  kill(pid_, signal);
}

bool ServiceProcess::HasEnded() const {
  if (pid_ < 0) return true;
  siginfo_t info = {};
  // Leaves the exit status to Wait().
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid == pid_;
}

int ServiceProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ServiceSystem::ServiceSystem(SystemOptions options) : options_(std::move(options)) {
  client_ = std::make_unique<GenerationClient>(Address("orchestrator"));
}

ServiceSystem::~ServiceSystem() {
  orchestrator.reset();
  drafter.reset();
  verifier.reset();
}

std::string ServiceSystem::Address(const std::string& service) const {
  return "unix://" + folder_.File(service + ".sock");
}

std::string ServiceSystem::Log(const std::string& service) const {
  std::ifstream file(folder_.File(service + ".log"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::unique_ptr<ServiceProcess> ServiceSystem::Start(const std::string& service,
                                                     std::vector<std::string> flags) const {
  flags.push_back("--listen=" + Address(service));
  flags.insert(flags.end(), options_.common_flags.begin(), options_.common_flags.end());
  if (options_.shared_memory && service != "orchestrator") {
    flags.push_back("--shared_memory=" + folder_.File("shm"));
  }
  return std::make_unique<ServiceProcess>("bastion-" + service, std::move(flags),
                                          folder_.File(service + ".log"));
}

void ServiceSystem::StartVerifier() {
  std::vector<std::string> flags = {"--target=" + options_.target, "--weights=" + options_.weights,
                                    "--backend=" + options_.backend};
  flags.insert(flags.end(), options_.verifier_flags.begin(), options_.verifier_flags.end());
  verifier = Start("verifier", std::move(flags));
}

void ServiceSystem::StartDrafter() {
  // A test may start a drafter that belongs to another target than the verifier's.
  const std::filesystem::path target = std::filesystem::path(options_.drafter) / "../target";
  drafter = Start("drafter", {"--drafter=" + options_.drafter, "--target=" + target.string(),
                              "--weights=" + options_.weights, "--backend=" + options_.backend,
                              "--verifier=" + Address("verifier")});
}

void ServiceSystem::StartOrchestrator() {
  std::vector<std::string> flags = {
      "--target=" + options_.target, "--verifier=" + Address("verifier"),
      "--drafter=" + Address("drafter"), "--profile_limit=0s", "--draft_timeout=10s"};
  if (std::filesystem::exists(options_.drafter + "/" + hub::kTransitionFileName)) {
    flags.push_back("--prior=" + options_.drafter);
  }
  // Sanitizers slow the services down. The last value of a flag counts.
  if (BASTION_SANITIZED) {
    flags.push_back("--peer_timeout=30s");
    flags.push_back("--profile_limit=500ms");
  }
  flags.insert(flags.end(), options_.orchestrator_flags.begin(), options_.orchestrator_flags.end());
  orchestrator = Start("orchestrator", std::move(flags));
}

bool ServiceSystem::AwaitServing(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (absl::Now() < deadline) {
    // Use a new connection each time, because gRPC waits a second before it retries a refused one.
    if (GenerationClient(Address("orchestrator")).CheckHealth().ok() &&
        client_->CheckHealth().ok()) {
      return true;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return false;
}

}  // namespace bastion::testing
