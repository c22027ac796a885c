#include "orchestrator/serve/constraint_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "orchestrator/serve/error_details.h"

namespace bastion {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);

}  // namespace

absl::StatusOr<ConstraintCache::Constraint> ConstraintCache::Get(
    const std::string& key, absl::FunctionRef<absl::StatusOr<Constraint>()> compile) {
  {
    MutexLock lock(&mutex_);
    Constraint found = Find(key);
    const size_t used = DropUnused();
    if (found != nullptr) return found;
    if (used >= kMaxUsed) {
      const absl::Status full = absl::ResourceExhaustedError(
          absl::StrCat("requests with ", used,
                       " different constraints are running or waiting; try again later"));
      return WithRetryDelay(ForClient(full), kRetryDelay);
    }
  }
  ASSIGN_OR_RETURN(Constraint compiled, compile());
  MutexLock lock(&mutex_);
  if (Constraint found = Find(key)) return found;  // Another call was faster.
  entries_.push_front({key, compiled});
  DropUnused();
  return compiled;
}

ConstraintCache::Constraint ConstraintCache::Find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->constraint;
}

size_t ConstraintCache::DropUnused() {
  size_t used = 0, unused = 0;
  entries_.remove_if([&](const Entry& entry) {
    if (entry.used()) {
      ++used;
      return false;
    }
    return ++unused > kMaxUnused;
  });
  return used;
}

}  // namespace bastion
