// PromptCounts: remembers the last prompts, and the continuation counts of the beginnings that
// several of them share. A prompt that begins like this starts from a copy of these counts, which
// is faster than counting again and gives the same result.
//
// The second prompt with a beginning shows where the shared part ends, so the counts there are kept
// from the second one on, and used from the third one on. Prompts share only under the same salt
// (PrefixItem in common/stages/stage_data.h). Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_PROMPT_COUNTS_H_
#define BASTION_ORCHESTRATOR_PRIOR_PROMPT_COUNTS_H_

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "orchestrator/prior/continuation_counts.h"

namespace bastion {

class PromptCounts {
 public:
  static constexpr size_t kEntries = 16;  // Prompts and beginnings, the last ones used.
  // Counts are kept only if they save counting this many tokens.
  static constexpr size_t kMinTokens = 64;

  // What a prompt has in common with earlier ones.
  struct Shared {
    std::shared_ptr<const ContinuationCounts> counts;  // Null if none are kept.
    size_t counted = 0;                                // Tokens that `counts` covers.
    size_t keep = 0;  // The counts of this many tokens should be kept. 0: none.
  };

  // Remembers `prompt`, and compares it with the earlier ones.
  [[nodiscard]] Shared Add(absl::Span<const TokenId> prompt, const std::string& salt);
  // Keeps the counts of `beginning`.
  void Keep(absl::Span<const TokenId> beginning, const std::string& salt,
            const ContinuationCounts& counts);

 private:
  struct Entry {
    std::string salt;
    std::vector<TokenId> tokens;
    std::shared_ptr<const ContinuationCounts> counts;  // Null if they are not kept.
  };
  void Insert(Entry entry);

  std::list<Entry> entries_;  // The last one used first.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_PROMPT_COUNTS_H_
