// Fault: something that goes wrong for a while in a Replica. One class per kind.
#ifndef BASTION_TESTS_FAULTS_SEEDED_FAULT_H_
#define BASTION_TESTS_FAULTS_SEEDED_FAULT_H_

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {

// Which requests may fail because of a fault. No other failure is allowed. A client that cancels
// its own request does not count as a failure. In ascending order.
enum class MayFail {
  kNone,
  // Requests that were not accepted yet: UNAVAILABLE while the verifier is gone. An accepted
  // request waits for the verifier, which returns within --verifier_patience.
  kRefused,
  // All requests, with UNAVAILABLE: the orchestrator itself has died or restarts.
  kUnavailable,
  // As kUnavailable, and RESOURCE_EXHAUSTED: the orchestrator has no memory left.
  kNoMemory,
};

// What health must say about a fault that lasts longer than HealthHistory::kNotice.
enum class Health {
  kServing,     // SERVING all the time.
  kNotServing,  // NOT_SERVING from kNotice after the beginning to the end.
  kEither,      // It depends on what the fault hits.
};

struct FaultTraits {
  std::string description;  // E.g. "SIGSTOP drafter".
  absl::Duration duration;
  MayFail may_fail = MayFail::kNone;
  Health health = Health::kServing;
  bool services_may_end = false;  // The fault may end services, which the replica starts again.
};

class Fault {
 public:
  explicit Fault(FaultTraits traits) : traits_(std::move(traits)) {}
  virtual ~Fault() = default;
  Fault(const Fault&) = delete;

  virtual void Begin() = 0;
  // The cause of the fault is gone when it returns.
  virtual void End() = 0;
  [[nodiscard]] const FaultTraits& traits() const { return traits_; }
  // What the fault has done, e.g. "12 chunks hit"; empty: nothing to count. Read after End.
  [[nodiscard]] virtual std::string effect() const { return ""; }
  // What went wrong that only the fault itself has seen. Read after End.
  [[nodiscard]] virtual std::vector<std::string> findings() const { return {}; }

 private:
  const FaultTraits traits_;
};

using Random = std::mt19937_64;

struct FaultKind {
  std::string name;
  bool needs_network = false;        // ReplicaOptions::network.
  bool needs_shared_memory = false;  // The opposite.
  bool needs_small_disk = false;     // Replica::has_small_disk().
  // `random` decides what the fault hits and for how long.
  std::function<std::unique_ptr<Fault>(Replica&, Random&)> make;
};

// All kinds that can be injected into `replica`.
[[nodiscard]] std::vector<FaultKind> UsableKinds(const Replica& replica);

// The kinds of each file.
[[nodiscard]] std::vector<FaultKind> ProcessFaults();      // kill-SERVICE, stop, clock
[[nodiscard]] std::vector<FaultKind> ResourceFaults();     // descriptors, disk, kv, memory
[[nodiscard]] std::vector<FaultKind> NetworkFaults();      // partition, delay, loss, …
[[nodiscard]] std::vector<FaultKind> CertificateFaults();  // certificate
[[nodiscard]] std::vector<FaultKind> SilenceFaults();      // silent, stalled-features, empty-drafts

// ---- for the implementations ----

[[nodiscard]] inline Service AnyService(Random& random) { return kServices[random() % 3]; }
[[nodiscard]] inline Link AnyLink(Random& random) { return kLinks[random() % 3]; }
// A duration between two bounds, in milliseconds.
[[nodiscard]] inline absl::Duration Between(int from, int to, Random& random) {
  return absl::Milliseconds(from + static_cast<int>(random() % static_cast<uint64_t>(to - from)));
}
// What a fault that makes `service` unreachable may break.
[[nodiscard]] MayFail LossOf(Service service);
// What health says meanwhile.
[[nodiscard]] Health HealthWithout(Service service);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_FAULT_H_
