// Transition tables for tests. Header-only.
#ifndef BASTION_TESTS_SUPPORT_TRANSITION_TABLES_H_
#define BASTION_TESTS_SUPPORT_TRANSITION_TABLES_H_

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "common/prior/transition_table.h"

namespace bastion::testing {

// Continuations and their counts, sorted by descending count.
using Counted = std::vector<std::pair<TokenId, uint16_t>>;

// The table with these contexts. Every token of the vocabulary occurs once.
inline TransitionTable TableOf(int vocabulary, const std::map<TokenId, Counted>& singles,
                               const std::map<std::pair<TokenId, TokenId>, Counted>& pairs = {}) {
  TransitionTable::Columns columns;
  columns.vocabulary = vocabulary;
  columns.occurrences.assign(vocabulary, 1);
  columns.offsets.push_back(0);
  const auto add = [&columns](const Counted& continuations) {
    uint32_t total = 0;
    for (const auto& [token, count] : continuations) {
      columns.tokens.push_back(token);
      columns.counts.push_back(count);
      total += count;
    }
    columns.totals.push_back(total);
    columns.offsets.push_back(static_cast<uint32_t>(columns.tokens.size()));
  };
  for (TokenId token = 0; token < vocabulary; ++token) {
    const auto found = singles.find(token);
    add(found == singles.end() ? Counted() : found->second);
  }
  for (const auto& [pair, continuations] : pairs) {
    columns.pairs.push_back(static_cast<uint64_t>(pair.first) * vocabulary + pair.second);
    add(continuations);
  }
  return *TransitionTable::Make(std::move(columns));
}

// A table with `width` random continuations of every token. It predicts nothing.
inline TransitionTable RandomTable(int vocabulary, int width, uint32_t seed) {
  std::mt19937 random(seed);
  std::map<TokenId, Counted> singles;
  for (TokenId token = 0; token < vocabulary; ++token) {
    std::map<TokenId, uint16_t> counts;
    while (static_cast<int>(counts.size()) < width) {
      counts[static_cast<TokenId>(random() % vocabulary)] =
          static_cast<uint16_t>(1 + random() % 100);
    }
    Counted& continuations = singles[token];
    continuations.assign(counts.begin(), counts.end());
    std::sort(continuations.begin(), continuations.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  return TableOf(vocabulary, singles);
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_TRANSITION_TABLES_H_
