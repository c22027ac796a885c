// SchedulerOptions: the limits of the scheduler. Plain data.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_OPTIONS_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_OPTIONS_H_

#include "absl/time/time.h"
#include "orchestrator/schedule/verifier_link.h"

namespace bastion {

struct SchedulerOptions {
  int max_running = 16;   // Requests admitted together.
  int max_waiting = 256;  // Maximum queue length. Further requests are refused.
  // Prompt rows per forward, all requests together. 256 rows use the arithmetic of a GPU or CPU
  // fully; more would only lengthen the forward.
  int prefill_rows = 256;
  // A request is parked if its client does not read for this long while the stream is full.
  absl::Duration park_after = absl::Seconds(1);
  // A request is dropped if its client let the full stream wait for this long in total.
  absl::Duration slow_client = absl::Seconds(30);
  // Accepted requests fail if the verifier is lost for this long.
  absl::Duration verifier_patience = absl::Seconds(30);
  VerifierLinkOptions link;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_SCHEDULER_OPTIONS_H_
