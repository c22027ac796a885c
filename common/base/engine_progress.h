// Counts the steps of work that the engines of this process have done, e.g. layers of a forward.
// Clients of a service read the count to tell a long call from one that hangs. Thread-safe.
#ifndef BASTION_COMMON_BASE_ENGINE_PROGRESS_H_
#define BASTION_COMMON_BASE_ENGINE_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace bastion {
namespace base {

inline std::atomic<uint64_t> engine_progress{0};

}  // namespace base

inline void CountProgress() { base::engine_progress.fetch_add(1, std::memory_order_relaxed); }
[[nodiscard]] inline uint64_t ProgressCount() {
  return base::engine_progress.load(std::memory_order_relaxed);
}

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_ENGINE_PROGRESS_H_
