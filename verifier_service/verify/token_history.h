// TokenHistory: how often each token is in a text, in its prompt and in its output; for penalties.
// Tokens come and go at the end, so that the paths of a tree can be walked. Thread-compatible.
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

  // The first `prompt_tokens` tokens are the prompt's.
  explicit TokenHistory(int prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  void Push(TokenId token) {
    ++Of(token, static_cast<int>(tokens_.size()));
    tokens_.push_back(token);
  }

  // REQUIRES: not empty.
  void Pop() {
    const TokenId token = tokens_.back();
    tokens_.pop_back();
    --Of(token, static_cast<int>(tokens_.size()));
  }

  [[nodiscard]] int output_tokens() const {
    return std::max(0, static_cast<int>(tokens_.size()) - prompt_tokens_);
  }
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  // Tokens that went again may still be here, counted as zero.
  [[nodiscard]] const absl::flat_hash_map<TokenId, Count>& counts() const { return counts_; }

 private:
  int& Of(TokenId token, int index) {
    Count& count = counts_[token];
    return index < prompt_tokens_ ? count.prompt : count.output;
  }

  int prompt_tokens_;
  std::vector<TokenId> tokens_;
  absl::flat_hash_map<TokenId, Count> counts_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_TOKEN_HISTORY_H_
