// Pages of the verifier's KV cache. Header-only. Thread-safe: no state.
#ifndef BASTION_COMMON_STAGES_KV_PAGES_H_
#define BASTION_COMMON_STAGES_KV_PAGES_H_

#include <cstdint>

#include "common/stages/stage_data.h"

namespace bastion {

// Pages that `tokens` tokens of one sequence occupy. REQUIRES: target.page_tokens >= 1.
[[nodiscard]] inline int64_t KvPages(const TargetInfo& target, int64_t tokens) {
  return (tokens + target.page_tokens - 1) / target.page_tokens;
}

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_KV_PAGES_H_
