// Campaign: injects faults at random moments into a replica under load, and checks their effects.
// The same seed gives the same faults; what runs at their moments depends on the machine.
// Thread-compatible.
//
// A fault fails if, from its beginning until all clients are idle again,
//   - a request failed that its traits do not allow to fail (MayFail),
//   - a text differs from that of the same request alone,
//   - health did not say what the traits say, or a service ended by itself,
//   - the service did not recover within kRecovery: SERVING, and an answer with drafts, or
//   - something leaked: sequences, KV pages, threads, descriptors or memory of a service.
#ifndef BASTION_TESTS_FAULTS_SEEDED_CAMPAIGN_H_
#define BASTION_TESTS_FAULTS_SEEDED_CAMPAIGN_H_

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/faults/seeded/fault.h"
#include "tests/faults/seeded/health_history.h"
#include "tests/faults/seeded/leaks.h"
#include "tests/faults/seeded/load.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {

struct CampaignOptions {
  uint64_t seed = 1;
  int clients = 4;
  int drain_every = 1;  // After this many faults, waits for all answers and looks for leaks.
};

// Sums over the faults of one kind.
struct KindResult {
  int faults = 0;
  int requests = 0;
  int canceled = 0;  // By their clients.
  int allowed = 0;   // Requests that failed and may fail.
  int failed = 0;    // Requests that failed and need not fail.
  int wrong_texts = 0;
  int leaks = 0;
  int other = 0;  // Wrong health, no recovery, services that ended by themselves.
  std::vector<absl::Duration> recoveries;
};

class Campaign {
 public:
  static constexpr absl::Duration kRecovery = absl::Seconds(15);

  // Both must outlive this object. `log` gets a line per fault, and one per finding.
  Campaign(Replica& replica, const CampaignOptions& options, std::ostream& log);

  // Waits until the service is ready, and gets the texts of the requests alone. False, with a line
  // in the log, if this fails.
  [[nodiscard]] bool Prepare();
  // Injects one fault of `kind`.
  void Run(const FaultKind& kind);
  // Waits for all answers, and looks for leaks.
  void Drain();

  // True if no fault failed.
  [[nodiscard]] bool passed() const;
  // The table of results by kind.
  [[nodiscard]] std::string Table() const;

 private:
  void Endure(Fault& fault);
  void CheckHealth(const FaultTraits& traits, absl::Duration began, absl::Duration ended);
  // The time until the service works again.
  [[nodiscard]] absl::Duration Recover();
  void Judge(const std::vector<Outcome>& outcomes);
  void Report(int& count, const std::string& what);

  Replica& replica_;
  const CampaignOptions options_;
  std::ostream& log_;
  Random random_;
  HealthHistory health_;
  Load load_;
  Leaks leaks_;
  std::map<std::string, KindResult> results_;
  KindResult* result_ = nullptr;  // That of the current fault.
  int number_ = 0;                // The current fault's, from 1.
  // What may fail since the last drain.
  MayFail may_fail_ = MayFail::kNone;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_CAMPAIGN_H_
