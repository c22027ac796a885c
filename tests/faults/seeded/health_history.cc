#include "tests/faults/seeded/health_history.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "common/base/clock.h"

namespace bastion::testing {

HealthHistory::HealthHistory(Replica& replica)
    : thread_([this, &replica] {
        while (!stopping_.load()) {
          const absl::Duration asked = Clock::Real().Now();
          const bool serving = replica.IsServing();
          {
            MutexLock lock(&mutex_);
            answers_.push_back(
                {.asked = asked, .answered = Clock::Real().Now(), .serving = serving});
          }
          absl::SleepFor(absl::Milliseconds(50));
        }
      }) {}

HealthHistory::~HealthHistory() {
  stopping_.store(true);
  thread_.join();
}

bool HealthHistory::Contains(bool serving, absl::Duration from, absl::Duration to) const {
  MutexLock lock(&mutex_);
  return std::any_of(answers_.begin(), answers_.end(), [&](const Answer& answer) {
    return answer.serving == serving && answer.asked >= from && answer.answered <= to;
  });
}

}  // namespace bastion::testing
