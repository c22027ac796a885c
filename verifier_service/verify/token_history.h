// TokenHistory: counts how often each token occurs in a prompt and in its output, for penalties.
// Tokens can be added and removed at the end, so that the paths of a tree can be tried in turn.
// Thread-compatible.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_TOKEN_HISTORY_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_TOKEN_HISTORY_H_

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"

namespace bastion::verifier {

class TokenHistory {
 public:
  struct Count {
    int prompt = 0;
    int output = 0;
  };

  // The first `prompt_tokens` tokens that are pushed belong to the prompt.
  explicit TokenHistory(int prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  void Push(TokenId token) {
    ++CountOf(token, static_cast<int>(tokens_.size()));
    tokens_.push_back(token);
  }

  // REQUIRES: not empty.
  void Pop() {
    const TokenId token = tokens_.back();
    tokens_.pop_back();
    --CountOf(token, static_cast<int>(tokens_.size()));
  }

  [[nodiscard]] int output_tokens() const {
    return std::max(0, static_cast<int>(tokens_.size()) - prompt_tokens_);
  }
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  // Tokens that were removed may remain with a count of zero.
  [[nodiscard]] const absl::flat_hash_map<TokenId, Count>& counts() const { return counts_; }

 private:
  int& CountOf(TokenId token, int index) {
    Count& count = counts_[token];
    return index < prompt_tokens_ ? count.prompt : count.output;
  }

  int prompt_tokens_;
  std::vector<TokenId> tokens_;
  absl::flat_hash_map<TokenId, Count> counts_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_TOKEN_HISTORY_H_
