#include "orchestrator/prior/prompt_counts.h"

#include <algorithm>
#include <utility>

namespace bastion {

PromptCounts::Shared PromptCounts::Add(absl::Span<const TokenId> prompt, const std::string& salt) {
  Shared shared;
  size_t longest = 0;
  auto used = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->salt != salt) continue;
    const auto differs =
        std::mismatch(entry->tokens.begin(), entry->tokens.end(), prompt.begin(), prompt.end());
    const auto common = static_cast<size_t>(differs.first - entry->tokens.begin());
    longest = std::max(longest, common);
    if (entry->counts == nullptr || common < entry->tokens.size()) continue;
    if (common > shared.counted) {
      shared = {entry->counts, common};
      used = entry;
    }
  }
  if (longest >= shared.counted + kMinTokens) shared.keep = longest;
  if (used != entries_.end()) entries_.splice(entries_.begin(), entries_, used);
  if (longest < prompt.size()) Insert({salt, {prompt.begin(), prompt.end()}, nullptr});
  return shared;
}

void PromptCounts::Keep(absl::Span<const TokenId> beginning, const std::string& salt,
                        const ContinuationCounts& counts) {
  Insert({salt,
          {beginning.begin(), beginning.end()},
          std::make_shared<const ContinuationCounts>(counts)});
}

void PromptCounts::Insert(Entry entry) {
  entries_.push_front(std::move(entry));
  if (entries_.size() > kEntries) entries_.pop_back();
}

}  // namespace bastion
