// Admission by free pages of the verifier's KV cache. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_KV_ADMISSION_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_KV_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/stages/stage_data.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {

// FAILED_PRECONDITION unless the verifier states a page size and a KV cache of at least one page.
// The functions below require it.
[[nodiscard]] absl::Status CheckKvCache(const TargetInfo& target);
// Tokens that the KV cache holds for one sequence that is alone.
[[nodiscard]] int KvCapacity(const TargetInfo& target);

// INVALID_ARGUMENT if the request could never be served: its prompt alone exceeds the capacity.
// Limits a default max_tokens so that the whole answer fits.
[[nodiscard]] absl::Status FitToCapacity(const TargetInfo& target, LiveRequest& request);

// The pages that are left for new requests.
class KvAdmission {
 public:
  // A request is admitted only if this many output tokens fit with its prompt. A preemption wastes
  // a prefill. With less room, a request that is admitted into a full cache could be preempted
  // after a few tokens, again and again. 64 tokens take longer to decode than the prefill of the
  // prompt of a typical request, so at worst about half of the time is wasted.
  static constexpr int kOutputRoom = 64;

  // `free_tokens`: tokens that fit into the free pages now.
  KvAdmission(const TargetInfo& target, int64_t free_tokens);

  // Keeps pages for a running request: for the rest of its prompt, and one page to grow.
  void Reserve(const LiveRequest& running);
  // True if the pages that are left hold the prompt of `next` and room for output.
  [[nodiscard]] bool Fits(const LiveRequest& next) const;

 private:
  const TargetInfo& target_;
  int64_t free_pages_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_KV_ADMISSION_H_
