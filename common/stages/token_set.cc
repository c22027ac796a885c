#include "common/stages/token_set.h"

#include "absl/strings/str_cat.h"

namespace bastion {

absl::Status RowMasks::Validate(int rows, int vocabulary) const {
  if (!set_of_row.empty() && set_of_row.size() != static_cast<size_t>(rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("masks for ", set_of_row.size(), " rows of a tree with ", rows));
  }
  for (const int index : set_of_row) {
    if (index != kAllTokens && (index < 0 || static_cast<size_t>(index) >= sets.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("a row has mask ", index, ", but there are ", sets.size()));
    }
  }
  for (const TokenSet& set : sets) {
    if (set.vocabulary() != vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("a mask for a vocabulary of ", set.vocabulary(), ", not ", vocabulary));
    }
    if (set.size() == 0) return absl::InvalidArgumentError("a mask allows no token");
  }
  return absl::OkStatus();
}

}  // namespace bastion
