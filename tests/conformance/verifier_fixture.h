// The fixture of the conformance suites for verifiers.
#ifndef BASTION_TESTS_CONFORMANCE_VERIFIER_FIXTURE_H_
#define BASTION_TESTS_CONFORMANCE_VERIFIER_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/conformance/stages_under_test.h"

namespace bastion::testing {

inline const std::vector<TokenId> kPrompt = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38};
inline constexpr Position kCached = 9;  // The prompt without its last token.

class VerifierFixture : public ::testing::TestWithParam<StagesKind> {
 protected:
  void SetUp() override {
    stages_ = GetParam().make();
    info_ = *stages_->verifier().Info();
    vocabulary_ = info_.dims.vocabulary;
  }
  void TearDown() override {
    for (const SequenceId id : opened_) verifier().Close(id);
  }

  Verifier& verifier() { return stages_->verifier(); }

  absl::Status Open(SequenceId id, const SamplingParams& sampling = {}) {
    absl::Status status = verifier().Open(id, sampling);
    if (status.ok()) opened_.push_back(id);
    return status;
  }
  SequenceId OpenNew(const SamplingParams& sampling = {}) {
    static uint64_t next_session = 1;
    const SequenceId id = {next_session++, 3};
    EXPECT_TRUE(Open(id, sampling).ok());
    return id;
  }
  // Opens a new sequence and commits `prompt` without its last token.
  SequenceId Begin(const SamplingParams& sampling = {},
                   const std::vector<TokenId>& prompt = kPrompt) {
    const SequenceId id = OpenNew(sampling);
    const auto trace = verifier().Prefill({id, 0, {prompt.begin(), prompt.end() - 1}});
    EXPECT_TRUE(trace.ok()) << trace.status();
    return id;
  }
  VerifyOutcome VerifyOne(const VerifyItem& item) {
    const auto result = verifier().Verify({item}, {});
    if (!result.ok()) return {result.status(), {}};
    return result->outcomes.at(0);
  }
  std::vector<TokenId> PlainText(const SamplingParams& sampling, int count,
                                 const std::vector<TokenId>& prompt = kPrompt) {
    const SequenceId id = Begin(sampling, prompt);
    const auto cached = static_cast<Position>(prompt.size()) - 1;
    std::vector<TokenId> text;
    TokenId root = prompt.back();
    for (int i = 0; i < count; ++i) {
      const VerifyOutcome outcome = VerifyOne({id, cached + i, DraftTree(root)});
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_TRUE(outcome.acceptance.path.empty());
      root = outcome.acceptance.next;
      text.push_back(root);
    }
    verifier().Close(id);
    return text;
  }
  // A tree with the next `hits` tokens of the text on one path. Each has a wrong sibling before and
  // after it.
  DraftTree TreeOver(TokenId root, const TokenId* text, int hits) const {
    DraftTree tree(root);
    NodeIndex at = 0;
    for (int d = 0; d < hits; ++d) {
      const float score = -1.0f - static_cast<float>(d);
      tree.Add(at, (text[d] + 1) % vocabulary_, score);
      const NodeIndex hit = tree.Add(at, text[d], score);
      tree.Add(at, (text[d] + 2) % vocabulary_, score);
      at = hit;
    }
    return tree;
  }

  // A prompt whose committed part fills `pages` pages exactly.
  std::vector<TokenId> PromptOfPages(int pages) const {
    std::vector<TokenId> prompt;
    for (int i = 0; i <= pages * info_.page_tokens; ++i) prompt.push_back(i * 37 % vocabulary_);
    return prompt;
  }
  int FreeTokens() {
    const auto result = verifier().Verify({}, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->free_kv_tokens : 0;
  }
  // Opens sequences that occupy all free pages but `pages_left`. Returns the last of them.
  SequenceId FillCache(int pages_left = 0) {
    SequenceId last;
    for (;;) {
      const int excess = FreeTokens() - pages_left * info_.page_tokens;
      if (excess <= 0) return last;
      last = OpenNew();
      const std::vector<TokenId> tokens(std::min(excess, info_.max_context), 1);
      const auto trace = verifier().Prefill({last, 0, tokens});
      EXPECT_TRUE(trace.ok()) << trace.status();
      if (!trace.ok()) return last;
    }
  }

  std::unique_ptr<StagesUnderTest> stages_;
  TargetInfo info_;
  int vocabulary_ = 0;
  std::vector<SequenceId> opened_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_CONFORMANCE_VERIFIER_FIXTURE_H_
