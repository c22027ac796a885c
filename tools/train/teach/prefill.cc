#include "tools/train/teach/prefill.h"

#include <algorithm>
#include <vector>

#include "common/base/status.h"

namespace bastion::train {

absl::Status Prefill(verifier::VerifierEngine& engine, absl::Span<const PrefillText> texts) {
  const size_t limit = engine.info().max_rows;
  std::vector<PrefillItem> items;
  size_t rows = 0;
  const auto run = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const VerifyResult result, engine.Verify({}, items));
    for (const absl::Status& status : result.prompts) RETURN_IF_ERROR(status);
    items.clear();
    rows = 0;
    return absl::OkStatus();
  };
  for (const PrefillText& text : texts) {
    for (size_t begin = 0; begin < text.tokens.size();) {
      const size_t count = std::min(text.tokens.size() - begin, limit - rows);
      const absl::Span<const TokenId> part = text.tokens.subspan(begin, count);
      items.push_back({text.sequence, static_cast<Position>(begin), {part.begin(), part.end()}});
      rows += count;
      begin += count;
      if (rows < limit) continue;
      RETURN_IF_ERROR(run());
    }
  }
  return rows > 0 ? run() : absl::OkStatus();
}

}  // namespace bastion::train
