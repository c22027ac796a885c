// The draft vocabulary: the tokens that a drafter can draft. A drafter with fewer tokens has an LM
// head with fewer rows, so a draft is cheaper. It cannot draft the other tokens: where the target
// chooses one of them, the accepted run ends.
//
// Thread-safe: no state.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_VOCABULARY_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_VOCABULARY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/prior/transition_table.h"

namespace bastion::drafter {

// The tokens `always` and the tokens that occur most often in the text of `table`, `count` tokens
// together, ascending. If tokens occur equally often, those with lower ids are chosen. If `count`
// is too small, only `always`; if it is too large, all tokens. REQUIRES: the tokens of `always` lie
// in [0, table.vocabulary()).
[[nodiscard]] std::vector<TokenId> FrequentTokens(const TransitionTable& table, int count,
                                                  absl::Span<const TokenId> always);

// The draft vocabulary of `count` tokens for the drafter in `drafter_folder`, by its transition
// table. It always has the tokens that end a text of the target in `target_folder`. Null if `count`
// is 0 or at least the target's vocabulary: all tokens. INVALID_ARGUMENT if `count` is negative;
// NOT_FOUND if the folder has no table; the errors of the target's config and of the table.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const std::vector<TokenId>>> ReadDraftVocabulary(
    const std::string& drafter_folder, const std::string& target_folder, int count);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_VOCABULARY_H_
