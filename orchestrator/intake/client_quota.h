// ClientQuota: limits the calls that each client has at a time, whether they wait or are answered.
// Clients are told apart by the names that they state. Thread-safe. Header-only.
#ifndef BASTION_ORCHESTRATOR_INTAKE_CLIENT_QUOTA_H_
#define BASTION_ORCHESTRATOR_INTAKE_CLIENT_QUOTA_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {

class ClientQuota {
 public:
  // When a client may retry that has as many calls as it may.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

  // A call of a client, until it is destroyed. The quota must outlive it.
  class Call {
   public:
    Call(ClientQuota* quota, std::string client) : quota_(quota, Leave{std::move(client)}) {}

   private:
    struct Leave {
      void operator()(ClientQuota* quota) const { quota->Leave(client); }
      std::string client;
    };
    std::unique_ptr<ClientQuota, Leave> quota_;
  };

  // 0: no limit.
  explicit ClientQuota(int max_calls) : max_calls_(max_calls) {}

  // RESOURCE_EXHAUSTED with a retry delay if `client` has as many calls as it may.
  [[nodiscard]] absl::StatusOr<Call> Enter(const std::string& client) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    int& calls = calls_[client];
    if (max_calls_ > 0 && calls >= max_calls_) {
      return WithRetryDelay(
          ForClient(absl::ResourceExhaustedError(absl::StrCat(
              "this client has ", calls, " calls already, the maximum; wait for one to end"))),
          kRetryDelay);
    }
    ++calls;
    return Call(this, client);
  }

 private:
  void Leave(const std::string& client) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = calls_.find(client);
    if (--found->second == 0) calls_.erase(found);
  }

  const int max_calls_;
  Mutex mutex_;
  std::unordered_map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);  // Above 0.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_CLIENT_QUOTA_H_
