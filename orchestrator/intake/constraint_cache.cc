#include "orchestrator/intake/constraint_cache.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);
// A client must leave as much free as it has; an origin, a third of what it has.
constexpr size_t kOriginParts = 3;

struct Use {
  size_t count = 0, bytes = 0;
  void Add(size_t more) {
    ++count;
    bytes += more;
  }
};

}  // namespace

absl::StatusOr<ConstraintCache::Constraint> ConstraintCache::Find(const std::string& key,
                                                                  const Owner& owner) {
  MutexLock lock(&mutex_);
  Entry* const found = FindEntry(key);
  DropUnused();
  if (found != nullptr && found->used()) return found->constraint;
  RETURN_IF_ERROR(CheckRoom(owner, found != nullptr ? found->bytes : 0));
  if (found == nullptr) return nullptr;
  found->owner = owner;
  return found->constraint;
}

absl::StatusOr<ConstraintCache::Constraint> ConstraintCache::Get(
    const std::string& key, const Owner& owner,
    absl::FunctionRef<absl::StatusOr<Constraint>()> compile) {
  ASSIGN_OR_RETURN(Constraint found, Find(key, owner));
  if (found != nullptr) return found;
  ASSIGN_OR_RETURN(Constraint compiled, compile());
  const size_t bytes = compiled->bytes();
  MutexLock lock(&mutex_);
  if (const Entry* other = FindEntry(key)) return other->constraint;  // Another call was faster.
  RETURN_IF_ERROR(CheckRoom(owner, bytes));
  entries_.push_front({key, owner, compiled, bytes});
  DropUnused();
  return compiled;
}

ConstraintCache::Entry* ConstraintCache::FindEntry(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &*found;
}

absl::Status ConstraintCache::CheckRoom(const Owner& owner, size_t bytes) const {
  Use all, client, origin;
  for (const Entry& entry : entries_) {
    if (!entry.used()) continue;
    all.Add(entry.bytes);
    if (entry.owner.client == owner.client) client.Add(entry.bytes);
    if (!owner.origin.empty() && entry.owner.origin == owner.origin) origin.Add(entry.bytes);
  }
  const auto fits = [&](size_t own_count, size_t own_bytes) {
    return own_count + all.count < kMaxUsed && own_bytes + all.bytes + bytes <= kMaxUsedBytes;
  };
  if (fits(client.count, client.bytes) &&
      fits(origin.count / kOriginParts, origin.bytes / kOriginParts)) {
    return absl::OkStatus();
  }
  const absl::Status full = absl::ResourceExhaustedError(absl::StrCat(
      "too many different constraints: requests have ", all.count, " of at most ", kMaxUsed,
      " with ", all.bytes >> 20, " of ", kMaxUsedBytes >> 20, " MiB, and this client has ",
      client.count, "; a client may have as many as are free; try again later"));
  return WithRetryDelay(ForClient(full), kRetryDelay);
}

void ConstraintCache::DropUnused() {
  Use unused;
  const size_t dropped = std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.used()) return false;
    unused.Add(entry.bytes);
    return unused.count > kMaxUnused || unused.bytes > kMaxUnusedBytes;
  });
  // The allocator keeps what other threads have freed, for each thread that compiled.
  if (dropped > 0 && unused.bytes > kMaxUnusedBytes) malloc_trim(0);
}

}  // namespace bastion
