#include "common/prior/transition_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

absl::Status InvalidEntry(const char* column, size_t index, const char* problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("transition table: ", column, "[", index, "] ", problem));
}

absl::Status CheckSizes(const TransitionTable::Columns& columns) {
  const auto vocabulary = static_cast<size_t>(columns.vocabulary);
  const size_t contexts = vocabulary + columns.pairs.size();
  if (columns.vocabulary < 1 || columns.occurrences.size() != vocabulary ||
      columns.totals.size() != contexts || columns.offsets.size() != contexts + 1 ||
      columns.tokens.size() != columns.counts.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "transition table: column sizes do not match a vocabulary of ", columns.vocabulary, " and ",
        columns.pairs.size(), " pairs: ", columns.occurrences.size(), " occurrences, ",
        columns.totals.size(), " totals, ", columns.offsets.size(), " offsets, ",
        columns.tokens.size(), " tokens, ", columns.counts.size(), " counts"));
  }
  return absl::OkStatus();
}

absl::Status CheckContexts(const TransitionTable::Columns& columns) {
  const std::vector<uint32_t>& offsets = columns.offsets;
  if (offsets.front() != 0) return InvalidEntry("offsets", 0, "is not 0");
  if (offsets.back() != columns.tokens.size()) {
    return InvalidEntry("offsets", offsets.size() - 1, "is not the number of continuations");
  }
  for (size_t context = 0; context + 1 < offsets.size(); ++context) {
    if (offsets[context] > offsets[context + 1])
      return InvalidEntry("offsets", context, "is above the next offset");
  }
  // The offsets are valid now, so they can index the continuations.
  for (size_t context = 0; context + 1 < offsets.size(); ++context) {
    uint64_t kept = 0;
    for (size_t i = offsets[context]; i < offsets[context + 1]; ++i) kept += columns.counts[i];
    if (kept > columns.totals[context])
      return InvalidEntry("totals", context, "is below the sum of the context's counts");
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const TransitionTable::Columns& columns) {
  const auto vocabulary = static_cast<uint64_t>(columns.vocabulary);
  for (size_t i = 0; i < columns.pairs.size(); ++i) {
    if (columns.pairs[i] >= vocabulary * vocabulary) {
      return InvalidEntry("pairs", i, "is outside the vocabulary");
    }
    if (i > 0 && columns.pairs[i] <= columns.pairs[i - 1]) {
      return InvalidEntry("pairs", i, "is not above the pair before it");
    }
  }
  for (size_t i = 0; i < columns.tokens.size(); ++i) {
    if (columns.tokens[i] < 0 || columns.tokens[i] >= columns.vocabulary) {
      return InvalidEntry("tokens", i, "is outside the vocabulary");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TransitionTable> TransitionTable::Make(Columns columns) {
  RETURN_IF_ERROR(CheckSizes(columns));
  RETURN_IF_ERROR(CheckTokens(columns));
  RETURN_IF_ERROR(CheckContexts(columns));
  return TransitionTable(std::move(columns));
}

TransitionTable::TransitionTable(Columns columns) : columns_(std::move(columns)) {
  const double seen =
      std::accumulate(columns_.occurrences.begin(), columns_.occurrences.end(), 0.0);
  probabilities_.reserve(columns_.occurrences.size());
  for (const uint32_t occurrences : columns_.occurrences) {
    probabilities_.push_back(
        static_cast<float>((occurrences + 0.5) / (seen + 0.5 * columns_.vocabulary)));
  }
}

Continuations TransitionTable::Context(size_t context) const {
  const size_t begin = columns_.offsets[context];
  const size_t size = columns_.offsets[context + 1] - begin;
  return {static_cast<float>(columns_.totals[context]),
          absl::MakeConstSpan(columns_.tokens).subspan(begin, size),
          absl::MakeConstSpan(columns_.counts).subspan(begin, size)};
}

Continuations TransitionTable::After(TokenId previous, TokenId last) const {
  const std::vector<uint64_t>& pairs = columns_.pairs;
  const uint64_t pair = static_cast<uint64_t>(previous) * columns_.vocabulary + last;
  const auto found = std::lower_bound(pairs.begin(), pairs.end(), pair);
  if (found == pairs.end() || *found != pair) return {};
  return Context(columns_.vocabulary + static_cast<size_t>(found - pairs.begin()));
}

}  // namespace bastion
