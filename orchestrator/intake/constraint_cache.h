// ConstraintCache: the compiled constraints of all requests. Requests with the same constraint
// share one. Their number and their memory are limited. Some stay for later requests. A client may
// have at most as many as are free, so one client alone gets half of them, and the other half stays
// free for others. All clients of an origin (e.g. a host) together get at most three quarters,
// because a host can call itself by many names. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_INTAKE_CONSTRAINT_CACHE_H_
#define BASTION_ORCHESTRATOR_INTAKE_CONSTRAINT_CACHE_H_

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
  // The bytes of these.
  static constexpr size_t kMaxUsedBytes = 96 << 20;
  // Those that no request has, kept for later ones.
  static constexpr size_t kMaxUnused = 8;
  static constexpr size_t kMaxUnusedBytes = 16 << 20;

  using Constraint = std::shared_ptr<const TokenConstraint>;

  // Whom a constraint counts for.
  struct Owner {
    std::string client = {};
    std::string origin = {};  // Empty: not limited.
  };

  // The constraint of `key`; null if it is not here. It counts for `owner` unless another request
  // has it. RESOURCE_EXHAUSTED, for clients, while requests have as many others as they may, or
  // `owner` does.
  [[nodiscard]] absl::StatusOr<Constraint> Find(const std::string& key, const Owner& owner)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, from `compile` unless it is here. Returns the errors of `compile`. Calls that compile
  // at the same time may exceed the limit of the number by their number.
  [[nodiscard]] absl::StatusOr<Constraint> Get(
      const std::string& key, const Owner& owner,
      absl::FunctionRef<absl::StatusOr<Constraint>()> compile) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string key;
    // The first one whose request has it.
    Owner owner;
    Constraint constraint;
    size_t bytes;
    [[nodiscard]] bool used() const { return constraint.use_count() > 1; }
  };

  // Null if it is not here.
  [[nodiscard]] Entry* FindEntry(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RESOURCE_EXHAUSTED if `owner` may not have another one with `bytes` now.
  [[nodiscard]] absl::Status CheckRoom(const Owner& owner, size_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the unused entries except the newest ones.
  void DropUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // The last one found or added comes first.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_CONSTRAINT_CACHE_H_
