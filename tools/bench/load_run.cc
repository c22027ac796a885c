#include "tools/bench/load_run.h"

#include <algorithm>
#include <utility>

namespace bastion {

double LoadRun::seconds() const {
  double last = 0;
  for (const PromptMeasurement& request : requests) last = std::max(last, request.ended);
  return last;
}

void Append(LoadRun more, LoadRun* run) {
  const double began = run->seconds();
  for (PromptMeasurement& request : more.requests) {
    request.arrived += began;
    request.ended += began;
    for (Delta& delta : request.deltas) delta.at += began;
    run->requests.push_back(std::move(request));
  }
  run->rejected += more.rejected;
  run->reliability.Add(more.reliability);
}

}  // namespace bastion
