// The three services as real processes on sockets in a folder of their own, for integration tests.
#ifndef BASTION_TESTS_SUPPORT_SERVICE_PROCESS_H_
#define BASTION_TESTS_SUPPORT_SERVICE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "client/cpp/generation_client.h"

namespace bastion::testing {

// One child process; killed when it goes.
class ServiceProcess {
 public:
  // Runs build/…/bin/`binary`; its output goes to `log`.
  ServiceProcess(const std::string& binary, std::vector<std::string> arguments,
                 const std::string& log);
  ~ServiceProcess();
  ServiceProcess(const ServiceProcess&) = delete;
  ServiceProcess& operator=(const ServiceProcess&) = delete;

  void Signal(int signal) const;
  // Waits for the end; the exit status, or 128 + the signal that ended it.
  int Wait();

 private:
  pid_t pid_ = -1;
};

struct SystemOptions {
  std::string target;
  std::string drafter;
  std::string dtype = "fp32";
  std::string backend = "cpu";  // "cpu" or "torch", for verifier and drafter.
  std::vector<std::string> orchestrator_flags;
  std::vector<std::string> verifier_flags;
  bool shared_memory = false;
};

// All three. Files: verifier.sock and .log, and so on.
class ServiceSystem {
 public:
  explicit ServiceSystem(SystemOptions options);
  ~ServiceSystem();

  void StartVerifier();
  void StartDrafter();
  void StartOrchestrator();
  // True once the orchestrator says SERVING, false after `patience`.
  [[nodiscard]] bool AwaitServing(absl::Duration patience = absl::Seconds(60));

  [[nodiscard]] std::string Address(const std::string& service) const;
  [[nodiscard]] std::string Log(const std::string& service) const;
  [[nodiscard]] GenerationClient& client() { return *client_; }

  std::unique_ptr<ServiceProcess> verifier, drafter, orchestrator;

 private:
  // What a service needs to offer shared memory, if it should.
  [[nodiscard]] std::vector<std::string> CarrierFlags() const;

  SystemOptions options_;
  std::string folder_;
  std::unique_ptr<GenerationClient> client_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_SERVICE_PROCESS_H_
