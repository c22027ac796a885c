#include "orchestrator/profile/expert_profile.h"

#include <map>
#include <set>

#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

// The verifier of a target that has one expert per token. Each row chooses that of its token. Calls
// take 1 ms, 0.1 ms per row, and `per_expert` for each expert.
class ExpertVerifier final : public Verifier {
 public:
  ExpertVerifier() {
    info.dims = testing::TinyDims();
    info.dims.vocabulary = 1000;
    info.max_rows = 64;
    info.max_context = 1024;
  }
  absl::StatusOr<TargetInfo> Info() override { return info; }
  absl::Status Open(SequenceId sequence, const SamplingParams& /*sampling*/) override {
    EXPECT_TRUE(cached_.emplace(sequence.epoch, 0).second);
    return absl::OkStatus();
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    VerifyResult result;
    for (const PrefillItem& item : prompts) {
      cached_.at(item.sequence.epoch) += static_cast<int>(item.tokens.size());
      result.prompts.push_back(absl::OkStatus());
    }
    if (forest.empty()) return result;
    if (fails) return absl::UnavailableError("gone");
    const VerifyItem& item = forest.at(0);
    EXPECT_EQ(item.cached, cached_.at(item.sequence.epoch));
    EXPECT_LE(item.cached + item.tree.rows(), info.max_context);
    EXPECT_TRUE(item.tree.IsChain());
    const std::set<TokenId> experts(item.tree.tokens().begin(), item.tree.tokens().end());
    result.trace.experts = static_cast<double>(experts.size());
    result.trace.forward = absl::Milliseconds(1 + 0.1 * item.tree.rows()) +
                           per_expert * static_cast<double>(experts.size());
    if (++calls == stalled_call) result.trace.forward += absl::Seconds(1);
    clock.Advance(result.trace.forward);
    result.outcomes.emplace_back();
    return result;
  }
  void Close(SequenceId sequence) override { cached_.erase(sequence.epoch); }

  [[nodiscard]] int live() const { return static_cast<int>(cached_.size()); }

  TargetInfo info;
  absl::Duration per_expert = absl::Microseconds(50);
  bool fails = false;
  int stalled_call = 0;
  int calls = 0;
  testing::ManualClock clock;

 private:
  std::map<uint32_t, int> cached_;
};

TEST(ExpertProfileTest, MeasuresWhatAnExpertAddsToACall) {
  ExpertVerifier verifier;
  verifier.stalled_call = 12;
  const absl::StatusOr<double> seconds =
      MeasureExpertSeconds(verifier, verifier.clock, {.time_limit = absl::Minutes(1)});
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_NEAR(*seconds, 50e-6, 1e-9);
  EXPECT_EQ(verifier.live(), 0);
}

TEST(ExpertProfileTest, UsesTheRowCountsThatFit) {
  ExpertVerifier verifier;
  verifier.info.max_rows = 9;
  EXPECT_NEAR(*MeasureExpertSeconds(verifier, verifier.clock, {.repetitions = 2}), 50e-6, 1e-9);
  EXPECT_EQ(verifier.calls, 3 * 2 * 2);  // 4 and 8 rows, of two kinds of tokens.
  verifier.info.max_context = 17;
  EXPECT_EQ(*MeasureExpertSeconds(verifier, verifier.clock, {}), 0);
}

TEST(ExpertProfileTest, IsZeroIfExpertsTakeNoTime) {
  ExpertVerifier verifier;
  verifier.per_expert = -absl::Microseconds(1);
  EXPECT_EQ(*MeasureExpertSeconds(verifier, verifier.clock, {}), 0);
}

TEST(ExpertProfileTest, StopsAtTheTimeLimit) {
  ExpertVerifier verifier;
  EXPECT_NEAR(*MeasureExpertSeconds(verifier, verifier.clock, {.time_limit = absl::Seconds(0)}),
              50e-6, 1e-9);
  EXPECT_EQ(verifier.calls, 2 * 4 * 2);  // Warm-up and one repetition.
}

TEST(ExpertProfileTest, ReturnsTheVerifiersErrorAndLeavesNoSequenceOpen) {
  ExpertVerifier verifier;
  verifier.fails = true;
  EXPECT_TRUE(absl::IsUnavailable(MeasureExpertSeconds(verifier, verifier.clock, {}).status()));
  EXPECT_EQ(verifier.live(), 0);
}

}  // namespace
}  // namespace bastion
