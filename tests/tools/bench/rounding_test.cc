#include "tools/bench/rounding.h"

#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"

namespace bastion {
namespace {

using ::bastion::testing::FakeVerifier;

// Chooses root + `step` with log-probability `log_prob`.
class SteppingVerifier final : public Verifier {
 public:
  SteppingVerifier(TokenId step, float log_prob) : step_(step), log_prob_(log_prob) {}

  absl::StatusOr<TargetInfo> Info() override {
    TargetInfo info;
    info.max_rows = 64;
    return info;
  }
  absl::Status Open(SequenceId, const SamplingParams& sampling) override {
    EXPECT_TRUE(sampling.logprobs.has_value());
    ++open;
    return absl::OkStatus();
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    VerifyResult result;
    for (const PrefillItem& prompt : prompts) {
      cached_ = prompt.cached + static_cast<Position>(prompt.tokens.size());
      result.prompts.push_back(absl::OkStatus());
    }
    if (forest.empty()) return result;
    EXPECT_EQ(forest[0].cached, cached_++);
    const TokenId root = forest[0].tree.token(0);
    VerifyOutcome outcome;
    outcome.acceptance.next = root + step_;
    // The most likely token, and the token that the other target chooses.
    outcome.acceptance.logprobs = {{log_prob_, {{root + step_, log_prob_}, {root + 1, -3.0f}}}};
    result.outcomes = {outcome};
    return result;
  }
  void Close(SequenceId) override { --open; }

  int open = 0;

 private:
  const TokenId step_;
  const float log_prob_;
  Position cached_ = 0;
};

const std::vector<BenchPrompt> kTwoPrompts = {{"a", {1, 2, 3}}, {"b", {4, 5}}};

TEST(RoundingTest, ATargetAgreesWithItself) {
  SteppingVerifier exact(1, -0.5f), same(1, -0.5f);
  const auto error = MeasureRounding(exact, same, kTwoPrompts, 5);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_EQ(error->positions, 10);
  EXPECT_EQ(error->same_choice, 10);
  EXPECT_EQ(error->log_prob_difference, 0);
  EXPECT_EQ(exact.open, 0);
}

TEST(RoundingTest, CountsDifferentChoicesAndLogProbabilities) {
  SteppingVerifier exact(1, -0.5f), other(2, -0.25f);
  const auto error = MeasureRounding(exact, other, kTwoPrompts, 4);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_EQ(error->same_choice, 0);
  EXPECT_NEAR(error->log_prob_difference, 2.5, 1e-6);  // −0.5 and −3.
}

TEST(RoundingTest, ReturnsTheErrorOfATarget) {
  FakeVerifier exact, rounded;
  exact.call_error = absl::DataLossError("gone");
  EXPECT_EQ(MeasureRounding(exact, rounded, kTwoPrompts, 4).status().message(), "gone");
}

}  // namespace
}  // namespace bastion
