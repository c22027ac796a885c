#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace bastion {
namespace {

class SteadyClock final : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const SteadyClock clock;
  return clock;
}

absl::Time SteadyNow() {
  static const absl::Time zero = absl::Now() - Clock::Real().Now();
  return zero + Clock::Real().Now();
}

}  // namespace bastion
