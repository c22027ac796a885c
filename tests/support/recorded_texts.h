// RecordedTexts: the greedy texts of a target, and what a drafter predicts at every position of
// them. Recorded once with real engines; then simulations (simulated_device.h) replay them without
// computing. A request repeats one recorded text. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_RECORDED_TEXTS_H_
#define BASTION_TESTS_SUPPORT_RECORDED_TEXTS_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/simulated_device.h"

namespace bastion::testing {

class RecordedTexts final : public SimulatedTexts {
 public:
  static constexpr int kCandidates = 64;  // Recorded candidates per position.

  // Decodes `tokens` tokens after each prompt, one at a time, with a draft before each.
  [[nodiscard]] static absl::StatusOr<RecordedTexts> Record(
      Verifier& verifier, Drafter& drafter, const std::vector<std::vector<TokenId>>& prompts,
      int tokens);

  [[nodiscard]] int size() const { return static_cast<int>(texts_.size()); }
  // The prompt of a text, and how many tokens were recorded after it.
  [[nodiscard]] const std::vector<TokenId>& prompt(int text) const { return texts_[text].prompt; }
  [[nodiscard]] int tokens() const { return tokens_; }
  // Session `session` is a request for text session % size().
  [[nodiscard]] int vocabulary() const override { return vocabulary_; }
  [[nodiscard]] Marginals Predict(const Frontier& frontier) override;
  [[nodiscard]] TokenId Choose(const VerifyItem& item, NodeIndex node) override;

 private:
  struct Text {
    std::vector<TokenId> prompt;
    std::vector<TokenId> output;    // [tokens]
    std::vector<Marginals> drafts;  // [tokens] Element i predicts the tokens from output[i] on.
  };

  [[nodiscard]] const Text& TextOf(SequenceId sequence) const {
    return texts_[sequence.session % texts_.size()];
  }

  int vocabulary_ = 0;
  int tokens_ = 0;
  std::vector<Text> texts_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_RECORDED_TEXTS_H_
