#include "tools/bench/load_generator.h"

namespace bastion {

bool LoadGenerator::HasNext(absl::Duration now) const {
  if (plan_.duration < absl::InfiniteDuration()) return now < plan_.duration;
  return started_ < plan_.requests.size();
}

std::optional<PlannedRequest> LoadGenerator::Next(absl::Duration now) {
  if (live_ >= plan_.max_live || !HasNext(now)) return std::nullopt;
  PlannedRequest request = plan_.requests[started_ % plan_.requests.size()];
  if (plan_.level.closed()) {
    request.arrival = now;
  } else if (request.arrival > now) {
    return std::nullopt;
  }
  ++started_;
  ++live_;
  return request;
}

absl::Duration LoadGenerator::NextArrival() const {
  if (plan_.level.closed() || live_ >= plan_.max_live || started_ >= plan_.requests.size()) {
    return absl::InfiniteDuration();
  }
  return plan_.requests[started_].arrival;
}

}  // namespace bastion
