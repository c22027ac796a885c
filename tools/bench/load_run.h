// What the arms made of the loads. Plain data.
#ifndef BASTION_TOOLS_BENCH_LOAD_RUN_H_
#define BASTION_TOOLS_BENCH_LOAD_RUN_H_

#include <string>
#include <vector>

#include "orchestrator/belief/reliability.h"
#include "tools/bench/load_plan.h"
#include "tools/bench/measurement.h"

namespace bastion {

// One run of a load by one arm.
struct LoadRun {
  std::vector<PromptMeasurement> requests;  // In order of arrival.
  int rejected = 0;                         // Open loop: requests that the server refused.
  Reliability reliability = {};             // Empty unless BenchSettings::reliability.

  // When the last request ended, in seconds since the load began.
  [[nodiscard]] double seconds() const;
};

// What one arm made of one level.
struct ArmResults {
  std::string policy;
  std::vector<LoadRun> rounds;
};

struct LevelResults {
  LoadLevel level;
  std::vector<ArmResults> arms;  // One per policy, in the same order at all levels.
};

// Appends a run that began when `run` ended.
void Append(LoadRun more, LoadRun* run);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LOAD_RUN_H_
