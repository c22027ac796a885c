#include "tools/train/prior/transition_counter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::drafter {
namespace {

constexpr uint64_t kMaxCount = std::numeric_limits<uint16_t>::max();
constexpr uint64_t kMaxTotal = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMinPairCount = 2;

using Columns = TransitionTable::Columns;

struct Entry {
  uint64_t context;
  uint64_t count;
  TokenId token;
};

// A context and those of its entries that the table keeps.
struct Run {
  uint64_t context;
  uint64_t total;
  absl::Span<const Entry> entries;
};

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Sorts by context, then by decreasing count, then by token id.
void SortEntries(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.context != b.context) return a.context < b.context;
    return a.count != b.count ? a.count > b.count : a.token < b.token;
  });
}

// Groups sorted entries by context. Keeps the first `keep` entries of each context.
std::vector<Run> MakeRuns(const std::vector<Entry>& ranked, int keep,
                          absl::FunctionRef<uint64_t(uint64_t context)> total) {
  std::vector<Run> runs;
  for (size_t begin = 0, end = 0; begin < ranked.size(); begin = end) {
    const uint64_t context = ranked[begin].context;
    while (end < ranked.size() && ranked[end].context == context) ++end;
    const size_t size = std::min(end - begin, static_cast<size_t>(keep));
    runs.push_back({context, total(context), absl::MakeConstSpan(&ranked[begin], size)});
  }
  return runs;
}

uint64_t CountEntries(const std::vector<Run>& runs) {
  uint64_t entries = 0;
  for (const Run& run : runs) entries += run.entries.size();
  return entries;
}

// Removes the entries of the rarest contexts until at least `excess` entries are removed. Subtracts
// their number from `excess`.
void DropRarestRuns(std::vector<Run>& runs, uint64_t& excess) {
  if (excess == 0) return;
  std::vector<Run*> rarest;
  rarest.reserve(runs.size());
  for (Run& run : runs) rarest.push_back(&run);
  std::sort(rarest.begin(), rarest.end(), [](const Run* a, const Run* b) {
    return a->total != b->total ? a->total < b->total : a->context > b->context;
  });
  for (Run* run : rarest) {
    if (excess == 0) return;
    excess -= std::min<uint64_t>(excess, run->entries.size());
    run->entries = {};
  }
}

// Appends the next context to `columns`. Counts and total are divided by the same number, which
// keeps their ratios. Counts are rounded down and the total is rounded up, so that the sum of the
// counts does not exceed the total.
void Append(uint64_t total, absl::Span<const Entry> entries, Columns& columns) {
  const uint64_t largest = entries.empty() ? 0 : entries.front().count;
  const uint64_t divisor = std::max({kMaxCount, largest, DivideUp(total * kMaxCount, kMaxTotal)});
  for (const Entry& entry : entries) {
    const uint64_t count = entry.count * kMaxCount / divisor;
    if (count == 0) break;
    columns.tokens.push_back(entry.token);
    columns.counts.push_back(static_cast<uint16_t>(count));
  }
  columns.totals.push_back(static_cast<uint32_t>(DivideUp(total * kMaxCount, divisor)));
  columns.offsets.push_back(static_cast<uint32_t>(columns.tokens.size()));
}

// Drops the quarter of `counts` with the smallest counts; of equal counts, the larger keys.
void DropRarest(absl::flat_hash_map<uint64_t, uint64_t>& counts,
                absl::FunctionRef<void(uint64_t key)> dropped) {
  std::vector<std::pair<uint64_t, uint64_t>> ranked(counts.begin(), counts.end());
  const auto first_to_drop = ranked.begin() + static_cast<ptrdiff_t>(ranked.size() * 3 / 4);
  std::nth_element(ranked.begin(), first_to_drop, ranked.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  for (auto entry = first_to_drop; entry != ranked.end(); ++entry) {
    counts.erase(entry->first);
    dropped(entry->first);
  }
}

}  // namespace

absl::Status Validate(const TransitionLimits& limits) {
  const int max = static_cast<int>(kMaxCount);
  if (limits.singles < 0 || limits.singles > max || limits.pairs < 0 || limits.pairs > max) {
    return absl::InvalidArgumentError(absl::StrCat("continuations per context: ", limits.singles,
                                                   " for tokens and ", limits.pairs,
                                                   " for pairs; each must be in [0, ", max, "]"));
  }
  if (limits.max_entries < 0 || static_cast<uint64_t>(limits.max_entries) > kMaxTotal) {
    return absl::InvalidArgumentError(absl::StrCat("total number of continuations is ",
                                                   limits.max_entries, "; it must be in [0, ",
                                                   kMaxTotal, "]"));
  }
  return absl::OkStatus();
}

TransitionCounter::TransitionCounter(int vocabulary, int64_t max_counted)
    : vocabulary_(static_cast<uint64_t>(vocabulary)),
      max_counted_(static_cast<size_t>(max_counted)) {
  CHECK(vocabulary >= 1 && vocabulary <= kMaxVocabulary) << "vocabulary " << vocabulary;
  CHECK_GE(max_counted, 1);
  occurrences_.resize(vocabulary_);
  totals_.resize(vocabulary_);
}

absl::Status TransitionCounter::Add(absl::Span<const TokenId> text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < 0 || static_cast<uint64_t>(text[i]) >= vocabulary_) {
      return absl::InvalidArgumentError(absl::StrCat("token ", text[i], " at index ", i,
                                                     " is outside the target's vocabulary of ",
                                                     vocabulary_));
    }
  }
  for (size_t i = 0; i < text.size(); ++i) {
    ++occurrences_[text[i]];
    if (i >= 1) CountSingle(text[i - 1], text[i]);
    if (i >= 2) CountPair(text[i - 2] * vocabulary_ + text[i - 1], text[i]);
  }
  ++texts_;
  tokens_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

void TransitionCounter::CountSingle(TokenId last, TokenId next) {
  ++totals_[last];
  ++singles_[last * vocabulary_ + next];
  if (singles_.size() > max_counted_) DropRarest(singles_, [](uint64_t) {});
}

void TransitionCounter::CountPair(uint64_t pair, TokenId next) {
  PairContext& context = pair_contexts_[pair];
  ++context.total;
  if (++pairs_[pair * vocabulary_ + next] > 1) return;
  ++context.entries;
  if (pairs_.size() <= max_counted_) return;
  DropRarest(pairs_, [this](uint64_t key) {
    const auto found = pair_contexts_.find(key / vocabulary_);
    if (--found->second.entries == 0) pair_contexts_.erase(found);
  });
}

absl::StatusOr<TransitionTable> TransitionCounter::Build(const TransitionLimits& limits) const {
  RETURN_IF_ERROR(Validate(limits));
  const auto pair_total = [&](uint64_t pair) { return pair_contexts_.at(pair).total; };
  std::vector<Entry> singles, pairs;
  for (const auto& [key, count] : singles_) {
    singles.push_back({key / vocabulary_, count, static_cast<TokenId>(key % vocabulary_)});
  }
  for (const auto& [key, count] : pairs_) {
    const uint64_t pair = key / vocabulary_;
    if (count < kMinPairCount) continue;
    if (static_cast<int64_t>(pair_total(pair)) < limits.min_pair_total) continue;
    pairs.push_back({pair, count, static_cast<TokenId>(key % vocabulary_)});
  }
  SortEntries(singles);
  SortEntries(pairs);
  std::vector<Run> single_runs =
      MakeRuns(singles, limits.singles, [&](uint64_t token) { return totals_[token]; });
  std::vector<Run> pair_runs = MakeRuns(pairs, limits.pairs, pair_total);
  const uint64_t entries = CountEntries(single_runs) + CountEntries(pair_runs);
  uint64_t excess = entries - std::min(entries, static_cast<uint64_t>(limits.max_entries));
  DropRarestRuns(pair_runs, excess);
  DropRarestRuns(single_runs, excess);

  Columns columns;
  columns.vocabulary = static_cast<int>(vocabulary_);
  columns.offsets = {0};
  auto run = single_runs.begin();
  for (uint64_t token = 0; token < vocabulary_; ++token) {
    columns.occurrences.push_back(static_cast<uint32_t>(std::min(occurrences_[token], kMaxTotal)));
    const bool has_run = run != single_runs.end() && run->context == token;
    Append(totals_[token], has_run ? (run++)->entries : absl::Span<const Entry>(), columns);
  }
  for (const Run& pair : pair_runs) {
    if (pair.entries.empty()) continue;
    columns.pairs.push_back(pair.context);
    Append(pair.total, pair.entries, columns);
  }
  return TransitionTable::Make(std::move(columns));
}

}  // namespace bastion::drafter
