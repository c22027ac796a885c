#include "orchestrator/cost/stage_times.h"

namespace bastion {

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  draft += other.draft;
  tree += other.tree;
  verify_queue += other.verify_queue;
  verify += other.verify;
  commit += other.commit;
  audit += other.audit;
  transfer += other.transfer;
  return *this;
}

StageTimes VerifyStages(const TimingTrace& trace, absl::Duration round_trip) {
  StageTimes times;
  times.verify_queue = trace.queue;
  times.verify = trace.verify();
  times.commit = trace.commit + trace.feature_export;
  times.audit = trace.audit;
  times.transfer = round_trip - times.total();
  return times;
}

}  // namespace bastion
