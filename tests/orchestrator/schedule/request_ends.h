// An observer for tests that records how requests end.
#ifndef BASTION_TESTS_ORCHESTRATOR_SCHEDULE_REQUEST_ENDS_H_
#define BASTION_TESTS_ORCHESTRATOR_SCHEDULE_REQUEST_ENDS_H_

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "orchestrator/schedule/live_request.h"
#include "orchestrator/schedule/serving_observer.h"

namespace bastion::testing {

class Ends final : public ServingObserver {
 public:
  void OnCycle(const CycleSummary&, const ServedCycle&) override {}
  void OnEnd(const LiveRequest& request, const absl::Status& status) override {
    MutexLock lock(&mutex_);
    ended_.push_back(status.code());
    client_ = request.client();
  }
  void OnRefusal(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    refused_.push_back(status.code());
  }

  std::vector<absl::StatusCode> ended() {
    MutexLock lock(&mutex_);
    return ended_;
  }
  std::vector<absl::StatusCode> refused() {
    MutexLock lock(&mutex_);
    return refused_;
  }
  std::string client() {
    MutexLock lock(&mutex_);
    return client_;
  }

 private:
  Mutex mutex_;
  std::vector<absl::StatusCode> ended_, refused_;
  std::string client_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_SCHEDULE_REQUEST_ENDS_H_
