// SharedPrompt: the tokens of a prompt. Copies share them, so all answers to a prompt hold it once.
// Header-only. Thread-safe: immutable, except for assignment.
#ifndef BASTION_ORCHESTRATOR_CYCLE_SHARED_PROMPT_H_
#define BASTION_ORCHESTRATOR_CYCLE_SHARED_PROMPT_H_

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/ids.h"

namespace bastion {

class SharedPrompt {
 public:
  using value_type = TokenId;
  using const_iterator = std::vector<TokenId>::const_iterator;

  // These convert, so that a list of tokens can be assigned to a prompt.
  SharedPrompt(std::vector<TokenId> tokens = {})  // NOLINT(google-explicit-constructor)
      : tokens_(std::make_shared<const std::vector<TokenId>>(std::move(tokens))) {}
  SharedPrompt(std::initializer_list<TokenId> tokens)
      : SharedPrompt(std::vector<TokenId>(tokens)) {}
  // Without a move, which would leave no tokens behind.
  SharedPrompt(const SharedPrompt&) = default;
  SharedPrompt& operator=(const SharedPrompt&) = default;

  [[nodiscard]] const std::vector<TokenId>& tokens() const { return *tokens_; }
  [[nodiscard]] size_t size() const { return tokens_->size(); }
  [[nodiscard]] bool empty() const { return tokens_->empty(); }
  [[nodiscard]] const TokenId* data() const { return tokens_->data(); }
  [[nodiscard]] TokenId operator[](size_t index) const { return (*tokens_)[index]; }
  [[nodiscard]] TokenId front() const { return tokens_->front(); }
  [[nodiscard]] TokenId back() const { return tokens_->back(); }
  [[nodiscard]] const_iterator begin() const { return tokens_->begin(); }
  [[nodiscard]] const_iterator end() const { return tokens_->end(); }
  friend bool operator==(const SharedPrompt& a, const SharedPrompt& b) {
    return *a.tokens_ == *b.tokens_;
  }

 private:
  std::shared_ptr<const std::vector<TokenId>> tokens_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_SHARED_PROMPT_H_
