#include "orchestrator/intake/work_limit.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

// How often a waiting call checks whether its client is gone.
constexpr absl::Duration kClientCheckInterval = absl::Milliseconds(50);

std::string ClientKey(const WorkCaller& caller) {
  return absl::StrCat(caller.origin.size(), ":", caller.origin, caller.client);
}

}  // namespace

WorkLimit::WorkLimit(int permits, size_t bytes) : max_permits_(permits), max_bytes_(bytes) {}

absl::StatusOr<WorkLimit::Permit> WorkLimit::Wait(size_t bytes, absl::Duration deadline,
                                                  const std::function<bool()>& is_canceled,
                                                  const WorkCaller& caller) {
  MutexLock lock(&mutex_);
  const auto place = waiting_.insert(waiting_.end(), {bytes, caller});
  Count(caller, 1);
  ChooseNext();
  bool works = false;
  const auto leave_place = absl::MakeCleanup([&] {
    mutex_.AssertHeld();
    waiting_.erase(place);
    if (!works) Count(caller, -1);
    ChooseNext();
  });
  const auto may_work = [&] {
    mutex_.AssertHeld();
    if (next_ != &*place) return false;
    return permits_ == 0 || (permits_ < max_permits_ && bytes_ + bytes <= max_bytes_);
  };
  for (;;) {
    const absl::Duration left = deadline - Clock::Real().Now();
    if (left <= absl::ZeroDuration()) return LiveRequest::DeadlineError();
    if (is_canceled && is_canceled()) return LiveRequest::CanceledError();
    if (!mutex_.AwaitWithTimeout(may_work, std::min(left, kClientCheckInterval))) continue;
    works = true;
    ++permits_;
    bytes_ += bytes;
    origins_[caller.origin].last = clients_[ClientKey(caller)].last = permit_number_++;
    return Permit(this, bytes, caller);
  }
}

void WorkLimit::Leave(size_t bytes, const WorkCaller& caller) {
  MutexLock lock(&mutex_);
  --permits_;
  bytes_ -= bytes;
  Count(caller, -1);
}

void WorkLimit::Count(const WorkCaller& caller, int calls) {
  const auto count = [calls](Usages& usages, const std::string& name) {
    const auto usage = usages.try_emplace(name).first;
    usage->second.calls += calls;
    if (usage->second.calls == 0) usages.erase(usage);
  };
  count(origins_, caller.origin);
  count(clients_, ClientKey(caller));
}

void WorkLimit::ChooseNext() {
  const auto last_permits = [this](const Place& place) {
    mutex_.AssertHeld();
    return std::pair(origins_[place.caller.origin].last, clients_[ClientKey(place.caller)].last);
  };
  const auto next = std::min_element(
      waiting_.begin(), waiting_.end(),
      [&](const Place& a, const Place& b) { return last_permits(a) < last_permits(b); });
  next_ = next == waiting_.end() ? nullptr : &*next;
}

}  // namespace bastion
