// LoadGenerator: decides when the requests of a load start. It reads no clock: the caller passes
// the time since the load began and reports the end of each request. Arms in process and arms
// through services share it.
//
//   Closed loop: `max_live` requests are live. A request that ends is replaced at once, until the
//   plan has no further request.
//   Open loop: requests arrive at given times, whether or not the server keeps up. While `max_live`
//   requests are live, further ones wait; their latency counts from their arrival.
#ifndef BASTION_TOOLS_BENCH_LOAD_GENERATOR_H_
#define BASTION_TOOLS_BENCH_LOAD_GENERATOR_H_

#include <cstddef>
#include <optional>

#include "absl/time/time.h"
#include "tools/bench/load_plan.h"

namespace bastion {

// Thread-compatible.
class LoadGenerator {
 public:
  // REQUIRES: `plan` outlives this object; plan.max_live >= 1; plan.requests is not empty.
  explicit LoadGenerator(const LoadPlan& plan) : plan_(plan) {}

  // The next request that starts at `now`, with its time of arrival. nullopt: none starts now.
  [[nodiscard]] std::optional<PlannedRequest> Next(absl::Duration now);
  // Reports that a request ended.
  void RequestEnded() { --live_; }

  [[nodiscard]] int live() const { return live_; }
  // True if no request is live at `now` and none will start.
  [[nodiscard]] bool Finished(absl::Duration now) const { return live_ == 0 && !HasNext(now); }
  // When the next request arrives. Infinite if the next request starts at the end of another one,
  // or if there is none.
  [[nodiscard]] absl::Duration NextArrival() const;

 private:
  [[nodiscard]] bool HasNext(absl::Duration now) const;

  const LoadPlan& plan_;
  size_t started_ = 0;
  int live_ = 0;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LOAD_GENERATOR_H_
