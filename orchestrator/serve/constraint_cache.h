// ConstraintCache: the compiled constraints of all requests. Requests with the same constraint
// share one, and the memory of all of them is limited: one takes a few MB, and up to 30 MB. Some
// stay for later requests. A client may have at most as many as are free. So one client alone gets
// half of kMaxUsed, and the other half stays free for others. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_CONSTRAINT_CACHE_H_
#define BASTION_ORCHESTRATOR_SERVE_CONSTRAINT_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "orchestrator/cycle/token_constraint.h"

namespace bastion {

class ConstraintCache {
 public:
  // The different constraints that requests may have at a time.
  static constexpr size_t kMaxUsed = 64;
  // Those that no request has, kept for later ones.
  static constexpr size_t kMaxUnused = 8;

  using Constraint = std::shared_ptr<const TokenConstraint>;

  // The constraint of `key`, from `compile` unless it is here already. It counts for `client`
  // unless another request has it. Returns the errors of `compile`. RESOURCE_EXHAUSTED, for
  // clients, while requests have kMaxUsed others, or `client` has as many as are free. Calls that
  // compile at the same time may exceed the limits by their number.
  [[nodiscard]] absl::StatusOr<Constraint> Get(
      const std::string& key, absl::string_view client,
      absl::FunctionRef<absl::StatusOr<Constraint>()> compile) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string key;
    // The client that it counts for: the first one whose request has it.
    std::string client;
    Constraint constraint;
    [[nodiscard]] bool used() const { return constraint.use_count() > 1; }
  };

  // Null if it is not here.
  [[nodiscard]] Entry* Find(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RESOURCE_EXHAUSTED if `client` may not have another one now.
  [[nodiscard]] absl::Status CheckRoom(absl::string_view client) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the unused entries except the newest kMaxUnused.
  void DropUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // The last one found or added comes first.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_CONSTRAINT_CACHE_H_
