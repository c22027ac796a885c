// HealthHistory: what the orchestrator's health said, and when. Thread-safe.
#ifndef BASTION_TESTS_FAULTS_SEEDED_HEALTH_HISTORY_H_
#define BASTION_TESTS_FAULTS_SEEDED_HEALTH_HISTORY_H_

#include <atomic>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {

class HealthHistory {
 public:
  // Health follows a loss within a second (--peer_timeout). The rest is for two busy cores.
  static constexpr absl::Duration kNotice = absl::Milliseconds(1800);

  explicit HealthHistory(Replica& replica);
  ~HealthHistory();
  HealthHistory(const HealthHistory&) = delete;

  // True if one of the answers between two times of Clock::Real was SERVING, or was not.
  [[nodiscard]] bool WasServing(absl::Duration from, absl::Duration to) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    return Contains(true, from, to);
  }
  [[nodiscard]] bool WasNotServing(absl::Duration from, absl::Duration to) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    return Contains(false, from, to);
  }

 private:
  struct Answer {
    absl::Duration asked, answered;
    bool serving;
  };

  [[nodiscard]] bool Contains(bool serving, absl::Duration from, absl::Duration to) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // The last member, because it uses the others.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_HEALTH_HISTORY_H_
