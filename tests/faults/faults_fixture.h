// A fixture that runs the three services, and requests in threads of their own.
#ifndef BASTION_TESTS_FAULTS_FAULTS_FIXTURE_H_
#define BASTION_TESTS_FAULTS_FAULTS_FIXTURE_H_

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/integration/services_fixture.h"

namespace bastion::testing {

class FaultsTest : public ServicesTest {
 protected:
  ServiceSystem& StartServices(std::vector<std::string> flags = {},
                               const std::string& target = kModels + "/target") {
    SystemOptions options;
    options.target = target;
    options.drafter = kModels + "/drafter";
    options.orchestrator_flags = std::move(flags);
    // A later flag wins over that of ServiceSystem.
    options.orchestrator_flags.push_back("--draft_timeout=500ms");
    system_ = std::make_unique<ServiceSystem>(options);
    system_->StartVerifier();
    system_->StartDrafter();
    system_->StartOrchestrator();
    EXPECT_TRUE(system_->AwaitServing()) << system_->Log("orchestrator");
    return *system_;
  }
  bool IsServing() { return GenerationClient(system_->Address("orchestrator")).CheckHealth().ok(); }
  // How long it takes until the health is as given; more than `limit` if it does not change.
  absl::Duration TimeUntilServing(bool serving, absl::Duration limit = absl::Seconds(20)) {
    StopWatch watch;
    absl::Duration time;
    while (IsServing() != serving && time <= limit) {
      absl::SleepFor(absl::Milliseconds(10));
      time += watch.Lap();
    }
    return time;
  }
};

// An answer that is generated in a thread of its own.
class RunningAnswer {
 public:
  RunningAnswer(ServiceSystem& system, const v1::GenerateRequest& request)
      : thread_([this, address = system.Address("orchestrator"), request] {
          GenerationClient client(address);
          StopWatch watch;
          answer_ = Generate(client, request, [&](int cycles) {
            cycles_ = cycles;
            largest_gap_ = std::max(largest_gap_, watch.Lap());
            return true;
          });
        }) {}
  ~RunningAnswer() {
    if (thread_.joinable()) thread_.join();
  }
  RunningAnswer(const RunningAnswer&) = delete;

  // Waits until `cycles` cycles have arrived; false after 30 seconds.
  bool AwaitCycles(int cycles) const {
    for (int i = 0; i < 6000 && cycles_ < cycles; ++i) absl::SleepFor(absl::Milliseconds(5));
    return cycles_ >= cycles;
  }
  const Answer& Wait() {
    if (thread_.joinable()) thread_.join();
    return answer_;
  }
  // The largest time between two messages. REQUIRES: Wait() has returned.
  absl::Duration largest_gap() const { return largest_gap_; }

 private:
  std::atomic<int> cycles_{0};
  absl::Duration largest_gap_;
  Answer answer_;
  std::thread thread_;  // The last member, because it uses the others.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_FAULTS_FIXTURE_H_
