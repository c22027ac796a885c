#include "orchestrator/schedule/serving_observer.h"

#include <algorithm>
#include <exception>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "orchestrator/schedule/log_throttle.h"

namespace bastion {
namespace {

// Exceptions of observers, for the log.
struct ObserverErrors {
  Mutex mutex;
  LogThrottle log ABSL_GUARDED_BY(mutex){kLogInterval};
};

void LogObserverError(const std::exception& error) {
  static ObserverErrors& errors = *new ObserverErrors;
  MutexLock lock(&errors.mutex);
  if (const auto count = errors.log.Count(Clock::Real().Now())) {
    LOG(ERROR) << "an observer of requests threw, " << *count
               << " times since the last such line, now: " << error.what();
  }
}

}  // namespace

void TellObserver(ServingObserver* observer, absl::FunctionRef<void(ServingObserver&)> tell) {
  if (observer == nullptr) return;
  try {
    tell(*observer);
  } catch (const std::exception& error) {
    LogObserverError(error);
  }
}

void ObserverList::TellAll(absl::FunctionRef<void(ServingObserver&)> tell) const {
  for (ServingObserver* observer : observers_) TellObserver(observer, tell);
}

bool ObserverList::wants_reliability() const {
  return std::any_of(observers_.begin(), observers_.end(),
                     [](const ServingObserver* observer) { return observer->wants_reliability(); });
}

TraceContext ObserverList::OnCycleBegin(const ServedCycle& requests) {
  TraceContext context;
  TellAll([&](ServingObserver& observer) {
    if (const TraceContext own = observer.OnCycleBegin(requests); own.valid()) context = own;
  });
  return context;
}

void ObserverList::OnCycle(const CycleSummary& cycle, const ServedCycle& requests) {
  TellAll([&](ServingObserver& observer) { observer.OnCycle(cycle, requests); });
}

void ObserverList::OnEnd(const LiveRequest& request, const absl::Status& status) {
  TellAll([&](ServingObserver& observer) { observer.OnEnd(request, status); });
}

void ObserverList::OnRefusal(const absl::Status& status) {
  TellAll([&](ServingObserver& observer) { observer.OnRefusal(status); });
}

void ObserverList::OnPreemption(const LiveRequest& request) {
  TellAll([&](ServingObserver& observer) { observer.OnPreemption(request); });
}

}  // namespace bastion
