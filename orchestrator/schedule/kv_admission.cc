#include "orchestrator/schedule/kv_admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/stages/kv_pages.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {

absl::Status CheckKvCache(const TargetInfo& target) {
  if (target.page_tokens >= 1 && target.kv_tokens >= target.page_tokens) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the verifier states a KV cache of ", target.kv_tokens, " tokens in pages of ",
                   target.page_tokens, " tokens; both must be at least 1, and one page must fit"));
}

int KvCapacity(const TargetInfo& target) {
  return target.kv_tokens / target.page_tokens * target.page_tokens;
}

absl::Status FitToCapacity(const TargetInfo& target, LiveRequest& request) {
  const int capacity = KvCapacity(target);
  const auto prompt = static_cast<int>(request.request().decode.prompt.size());
  if (prompt > capacity) {
    return FieldError("prompt", absl::StrCat("has ", prompt,
                                             " tokens, but the KV cache of this "
                                             "server holds ",
                                             capacity));
  }
  // The last token of an answer is not stored.
  request.LimitDefaultLength(capacity - prompt + 1);
  return absl::OkStatus();
}

KvAdmission::KvAdmission(const TargetInfo& target, int64_t free_tokens)
    : target_(target), free_pages_(free_tokens / target.page_tokens) {}

void KvAdmission::Reserve(const LiveRequest& running) {
  const int64_t committed = running.sequence().committed();
  free_pages_ -=
      KvPages(target_, committed + running.prompt_left()) - KvPages(target_, committed) + 1;
}

bool KvAdmission::Fits(const LiveRequest& next) const {
  const int room = std::min(kOutputRoom, next.tokens_left());
  return KvPages(target_, int64_t{next.prompt_left()} + room) <= free_pages_;
}

}  // namespace bastion
