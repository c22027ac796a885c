// Runs the three services as processes for integration tests. Their sockets and logs are in a
// temporary folder.
#ifndef BASTION_TESTS_SUPPORT_SERVICE_PROCESS_H_
#define BASTION_TESTS_SUPPORT_SERVICE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "bastion/generation_client.h"
#include "tests/support/temp_folder.h"

namespace bastion::testing {

// One child process. The destructor kills it.
class ServiceProcess {
 public:
  // Runs `binary` from the bin folder of the build. Appends its output to the file `log`. Adds
  // `environment`, lines "NAME=VALUE", to that of this process.
  ServiceProcess(const std::string& binary, std::vector<std::string> arguments,
                 const std::string& log, std::vector<std::string> environment = {});
  ~ServiceProcess();
  ServiceProcess(const ServiceProcess&) = delete;
  ServiceProcess& operator=(const ServiceProcess&) = delete;

  // REQUIRES: Wait() was not called.
  void Signal(int signal) const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool HasEnded() const;
  // Waits for the process to end. Returns its exit status, or 128 + the signal that ended it.
  int Wait();

 private:
  pid_t pid_ = -1;
};

struct SystemOptions {
  std::string target;   // Folder of the verifier's target.
  std::string drafter;  // Folder of the drafter, next to the folder of its target.
  std::string weights = "fp32";
  std::string backend = "cpu";  // "cpu" or "torch", for verifier and drafter.
  std::vector<std::string> orchestrator_flags;
  std::vector<std::string> verifier_flags;
  std::vector<std::string> common_flags;  // For all services.
  bool shared_memory = false;
};

// All three services. The files are <service>.sock and <service>.log.
class ServiceSystem {
 public:
  explicit ServiceSystem(SystemOptions options);
  ~ServiceSystem();

  void StartVerifier();
  void StartDrafter();
  void StartOrchestrator();
  // Waits until the orchestrator reports SERVING. Returns false after `timeout`.
  [[nodiscard]] bool AwaitServing(absl::Duration timeout = absl::Seconds(60));

  // The gRPC address of a service.
  [[nodiscard]] std::string Address(const std::string& service) const;
  // The log of a service so far.
  [[nodiscard]] std::string Log(const std::string& service) const;
  [[nodiscard]] GenerationClient& client() { return *client_; }

  std::unique_ptr<ServiceProcess> verifier, drafter, orchestrator;

 private:
  // Appends common_flags to `flags` and, for a service that offers shared memory if
  // options_.shared_memory is set, the flag for it. Starts the service.
  [[nodiscard]] std::unique_ptr<ServiceProcess> Start(const std::string& service,
                                                      std::vector<std::string> flags) const;

  SystemOptions options_;
  TempFolder folder_;
  std::unique_ptr<GenerationClient> client_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_SERVICE_PROCESS_H_
