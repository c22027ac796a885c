// RetryEstimate: the delay that a refused client should wait, from the rate at which requests end.
// Every end frees a place. The n-th client that is refused since the last end is told to wait for n
// ends, so that clients do not all return for the same place. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_RETRY_ESTIMATE_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_RETRY_ESTIMATE_H_

#include "absl/time/time.h"

namespace bastion {

class RetryEstimate {
 public:
  static constexpr absl::Duration kShortest = absl::Milliseconds(100);
  static constexpr absl::Duration kLongest = absl::Minutes(1);

  // A request is served from now on.
  void RecordStart(absl::Duration now);
  // A request that was served has ended.
  void RecordEnd(absl::Duration now);
  // A request that was served waits again.
  void RecordPreemption() { --served_; }
  // The delay for a client that is refused now.
  [[nodiscard]] absl::Duration NextDelay(absl::Duration now);

 private:
  int served_ = 0;
  absl::Duration last_end_;  // Or the time since which requests are served, if that is later.
  absl::Duration interval_ = absl::Seconds(1);  // Mean time between two ends.
  int refused_ = 0;                             // Clients refused since the last end.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_RETRY_ESTIMATE_H_
