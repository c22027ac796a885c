// CancelBudget: how many calls the client of a connection may cancel. A client that opens calls and
// cancels them at once makes the server work without limit: a canceled call does not count against
// the limit on concurrent calls ("rapid reset", CVE-2023-44487). Thread-compatible.
#ifndef BASTION_COMMON_HOST_CANCEL_BUDGET_H_
#define BASTION_COMMON_HOST_CANCEL_BUDGET_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace bastion::wire {

class CancelBudget {
 public:
  // A client that stops cancels all calls of its connection at once.
  static constexpr double kBurst = 1000;
  static constexpr double kPerSecond = 200;

  // False if the client has canceled too many calls. At `now`, on any steady clock, `unanswered` of
  // the connection's calls have begun and were not answered: they run, or were canceled. The number
  // of those that run goes up and down, so only a new maximum is charged.
  [[nodiscard]] bool Allows(int64_t unanswered, absl::Duration now) {
    const absl::Duration passed = std::max(now - last_, absl::ZeroDuration());
    const auto added = static_cast<double>(std::max<int64_t>(unanswered - most_, 0));
    // Limited only afterwards: the calls were canceled at any time since the last look.
    left_ = std::min(kBurst, left_ + kPerSecond * absl::ToDoubleSeconds(passed) - added);
    last_ = now;
    most_ = std::max(most_, unanswered);
    return left_ >= 0;
  }

 private:
  double left_ = kBurst;
  int64_t most_ = 0;  // The largest `unanswered` so far.
  absl::Duration last_ = absl::InfiniteDuration();
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_CANCEL_BUDGET_H_
