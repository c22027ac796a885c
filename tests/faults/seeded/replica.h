// Replica: the three services as processes that a test kills, cuts off and starves. Like a
// supervisor, it starts a service again that has ended.
//
// On several hosts (ReplicaOptions::network) the services speak mutual TLS over TCP, and every
// connection between two of them passes a FaultyLink. On one host they use unix sockets and shared
// memory. Thread-compatible, except MakeClient, IsServing and AwaitServing, which are thread-safe.
#ifndef BASTION_TESTS_FAULTS_SEEDED_REPLICA_H_
#define BASTION_TESTS_FAULTS_SEEDED_REPLICA_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bastion/generation_client.h"
#include "tests/faults/seeded/faulty_link.h"
#include "tests/faults/seeded/shifted_clock.h"
#include "tests/support/service_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace bastion::testing {

enum class Service { kVerifier, kDrafter, kOrchestrator };
inline constexpr Service kServices[] = {Service::kVerifier, Service::kDrafter,
                                        Service::kOrchestrator};
[[nodiscard]] std::string Name(Service service);

enum class Link { kOrchestratorToVerifier, kOrchestratorToDrafter, kDrafterToVerifier };
inline constexpr Link kLinks[] = {Link::kOrchestratorToVerifier, Link::kOrchestratorToDrafter,
                                  Link::kDrafterToVerifier};
[[nodiscard]] std::string Name(Link link);

struct ReplicaOptions {
  std::string models;  // Folder with the folders "target" and "drafter".
  bool network = true;
  int kv_tokens = 2048;  // The verifier's capacity.
  uint64_t seed = 1;     // For the links.
};

class Replica {
 public:
  explicit Replica(const ReplicaOptions& options);
  ~Replica();

  // Starts a service that does not run.
  void Start(Service service);
  [[nodiscard]] ServiceProcess& process(Service service) const {
    return *processes_[Index(service)];
  }
  // Starts the services again that have ended. Returns their names.
  std::vector<std::string> RestartEnded();
  // How often a service was started.
  [[nodiscard]] int starts(Service service) const { return starts_[Index(service)]; }

  [[nodiscard]] ShiftedClock& clock(Service service) { return *clocks_[Index(service)]; }
  // REQUIRES: network.
  [[nodiscard]] FaultyLink& link(Link link) { return *links_[static_cast<size_t>(link)]; }
  // Replaces a service's certificate by one that is valid for `lifetime` from now. REQUIRES:
  // network.
  void Certify(Service service, absl::Duration lifetime = absl::Hours(12)) const;

  // The folder of the orchestrator's files and of all logs. A small file system of its own if this
  // process may mount one.
  [[nodiscard]] const std::string& state_folder() const { return state_; }
  [[nodiscard]] bool has_small_disk() const { return small_disk_; }

  // A client with a connection of its own.
  [[nodiscard]] std::unique_ptr<GenerationClient> MakeClient() const;
  // Health, over a connection of its own, where the service answers without TLS.
  [[nodiscard]] bool IsServing();
  [[nodiscard]] bool AwaitServing(absl::Duration limit);
  // The samples of a service's /metrics by name, summed over their labels; empty if it does not
  // answer.
  [[nodiscard]] std::map<std::string, double> Metrics(Service service) const;
  [[nodiscard]] std::string Log(Service service) const;
  [[nodiscard]] int port(Service service) const { return ports_[Index(service)]; }
  [[nodiscard]] bool network() const { return options_.network; }

 private:
  static size_t Index(Service service) { return static_cast<size_t>(service); }
  [[nodiscard]] std::string Address(Service service) const;
  // Where one service reaches another one.
  [[nodiscard]] std::string AddressOver(Link link) const;
  [[nodiscard]] std::vector<std::string> Flags(Service service) const;

  const ReplicaOptions options_;
  TempFolder folder_;
  TestAuthority authority_;
  std::string state_;
  bool small_disk_ = false;
  std::array<int, 3> ports_, http_ports_, link_ports_, starts_ = {};
  int health_port_;
  std::array<std::unique_ptr<ShiftedClock>, 3> clocks_;
  std::array<std::unique_ptr<FaultyLink>, 3> links_;
  std::array<std::unique_ptr<ServiceProcess>, 3> processes_;
  std::unique_ptr<GenerationClient> health_client_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_REPLICA_H_
