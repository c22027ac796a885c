// TokenSet: a set of tokens of a vocabulary, e.g. those that a constraint allows. And RowMasks: the
// sets of the rows of a tree. Plain data.
#ifndef BASTION_COMMON_STAGES_TOKEN_SET_H_
#define BASTION_COMMON_STAGES_TOKEN_SET_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace bastion {

class TokenSet {
 public:
  static constexpr int kBits = 32;  // Tokens of a word.

  // The empty set of a vocabulary of `vocabulary` tokens.
  explicit TokenSet(int vocabulary = 0)
      : vocabulary_(vocabulary), words_((vocabulary + kBits - 1) / kBits) {}

  [[nodiscard]] int vocabulary() const { return vocabulary_; }
  // Bit i of word w is token 32 w + i. Bits past the vocabulary are 0.
  [[nodiscard]] std::vector<uint32_t>& words() { return words_; }
  [[nodiscard]] const std::vector<uint32_t>& words() const { return words_; }
  // REQUIRES, for both: 0 <= token < vocabulary().
  void Add(TokenId token) { words_[token / kBits] |= uint32_t{1} << (token % kBits); }
  [[nodiscard]] bool contains(TokenId token) const {
    return (words_[token / kBits] >> (token % kBits) & 1) != 0;
  }
  [[nodiscard]] int size() const {
    int size = 0;
    for (const uint32_t word : words_) size += std::popcount(word);
    return size;
  }

  friend bool operator==(const TokenSet&, const TokenSet&) = default;

 private:
  int vocabulary_;
  std::vector<uint32_t> words_;
};

// The tokens that the target may choose after each row of a tree. Rows with the same tokens share a
// set. No masks: it may choose all tokens.
struct RowMasks {
  static constexpr int kAllTokens = -1;

  std::vector<TokenSet> sets;
  std::vector<int> set_of_row;  // By row: an index into `sets`, or kAllTokens. Or empty.

  // The tokens that may follow `row`; null if all may.
  [[nodiscard]] const TokenSet* Of(NodeIndex row) const {
    const int index = set_of_row.empty() ? kAllTokens : set_of_row[row];
    return index == kAllTokens ? nullptr : &sets[index];
  }
  // INVALID_ARGUMENT unless these can be the masks of a tree with `rows` rows: every index and
  // every vocabulary fits, and no set is empty.
  [[nodiscard]] absl::Status Validate(int rows, int vocabulary) const;

  friend bool operator==(const RowMasks&, const RowMasks&) = default;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_TOKEN_SET_H_
