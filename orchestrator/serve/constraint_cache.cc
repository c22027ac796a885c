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
    const std::string& key, absl::string_view client,
    absl::FunctionRef<absl::StatusOr<Constraint>()> compile) {
  {
    MutexLock lock(&mutex_);
    Entry* const found = Find(key);
    DropUnused();
    if (found != nullptr && found->used()) return found->constraint;
    RETURN_IF_ERROR(CheckRoom(client));
    if (found != nullptr) {
      found->client = std::string(client);
      return found->constraint;
    }
  }
  ASSIGN_OR_RETURN(Constraint compiled, compile());
  MutexLock lock(&mutex_);
  if (const Entry* found = Find(key)) return found->constraint;  // Another call was faster.
  entries_.push_front({key, std::string(client), compiled});
  DropUnused();
  return compiled;
}

ConstraintCache::Entry* ConstraintCache::Find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &*found;
}

absl::Status ConstraintCache::CheckRoom(absl::string_view client) const {
  size_t used = 0, own = 0;
  for (const Entry& entry : entries_) {
    if (!entry.used()) continue;
    ++used;
    if (entry.client == client) ++own;
  }
  if (own + used < kMaxUsed) return absl::OkStatus();
  const absl::Status full = absl::ResourceExhaustedError(absl::StrCat(
      "too many different constraints: requests have ", used, " of at most ", kMaxUsed,
      ", and this client has ", own, "; a client may have as many as are free; try again later"));
  return WithRetryDelay(ForClient(full), kRetryDelay);
}

void ConstraintCache::DropUnused() {
  size_t unused = 0;
  entries_.remove_if([&](const Entry& entry) { return !entry.used() && ++unused > kMaxUnused; });
}

}  // namespace bastion
