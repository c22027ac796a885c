#include "common/stages/stages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {

std::string Describe(FeatureRoute route) {
  switch (route) {
    case FeatureRoute::kNone:
      return "";
    case FeatureRoute::kGrpc:
      return "over gRPC";
    case FeatureRoute::kSharedMemory:
      return "in the host's memory";
    case FeatureRoute::kGpuMemory:
      return "in GPU memory";
    case FeatureRoute::kPeerGpuMemory:
      return "in GPU memory, read by another GPU";
  }
  return "";
}
namespace {

// More rows make a forward hardly more efficient, but need more memory.
constexpr int kMaxChunk = 256;

void Add(const TimingTrace& trace, TimingTrace& sum) {
  sum.queue += trace.queue;
  sum.layout += trace.layout;
  sum.forward += trace.forward;
  sum.accept += trace.accept;
  sum.commit += trace.commit;
  sum.feature_export += trace.feature_export;
  sum.audit += trace.audit;
  sum.rows += trace.rows;
}

}  // namespace

absl::StatusOr<TimingTrace> PrefillInChunks(const PrefillItem& item, int max_rows,
                                            VerifyPrompt verify) {
  TimingTrace sum;
  sum.contexts = {item.cached};
  const auto count = static_cast<int>(item.tokens.size());
  const int chunk = std::clamp(max_rows, 1, kMaxChunk);
  for (int begin = 0; begin < count; begin += chunk) {
    const auto first = item.tokens.begin() + begin;
    ASSIGN_OR_RETURN(
        const VerifyResult result,
        verify(
            {item.sequence, item.cached + begin, {first, first + std::min(chunk, count - begin)}}));
    if (result.prompts.size() != 1) {
      return absl::InternalError(
          absl::StrCat("the verifier returned ", result.prompts.size(), " statuses for 1 prompt"));
    }
    RETURN_IF_ERROR(result.prompts[0]);
    Add(result.trace, sum);
  }
  return sum;
}

absl::StatusOr<TimingTrace> Verifier::Prefill(const PrefillItem& item) {
  ASSIGN_OR_RETURN(const TargetInfo info, Info());
  return PrefillInChunks(item, info.max_rows,
                         [this](const PrefillItem& prompt) { return Verify({}, {prompt}); });
}

}  // namespace bastion
