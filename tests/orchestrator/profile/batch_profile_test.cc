#include "orchestrator/profile/batch_profile.h"

#include <map>

#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using ::bastion::testing::ManualClock;

// A verifier whose calls take 1 ms, 0.1 ms per row, and `per_sequence` for every sequence after the
// first.
class BatchVerifier final : public Verifier {
 public:
  BatchVerifier() {
    info.dims = testing::TinyDims();
    info.dims.vocabulary = 1000;
    info.max_rows = 64;
    info.max_context = 1024;
  }
  absl::StatusOr<TargetInfo> Info() override { return info; }
  absl::Status Open(SequenceId sequence, const SamplingParams& /*sampling*/) override {
    if (static_cast<int>(cached_.size()) == max_sequences) {
      return absl::ResourceExhaustedError("no more sequences");
    }
    EXPECT_TRUE(cached_.emplace(sequence.session, 0).second);
    return absl::OkStatus();
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    if (fails && !forest.empty()) return absl::UnavailableError("gone");
    VerifyResult result;
    int rows = 0;
    for (const PrefillItem& item : prompts) {
      cached_.at(item.sequence.session) += static_cast<int>(item.tokens.size());
      result.prompts.push_back(absl::OkStatus());
    }
    if (forest.empty()) return result;
    for (const VerifyItem& item : forest) {
      EXPECT_EQ(item.cached, cached_.at(item.sequence.session)++);
      rows += item.tree.rows();
      result.outcomes.emplace_back();
    }
    rows_per_call.push_back(rows);
    result.trace.forward =
        absl::Milliseconds(1 + 0.1 * rows) + per_sequence * static_cast<double>(forest.size() - 1);
    clock.Advance(result.trace.forward);
    return result;
  }
  void Close(SequenceId sequence) override { cached_.erase(sequence.session); }

  [[nodiscard]] int live() const { return static_cast<int>(cached_.size()); }

  TargetInfo info;
  int max_sequences = 100;
  absl::Duration per_sequence = absl::Microseconds(150);
  bool fails = false;
  std::vector<int> rows_per_call;
  ManualClock clock;

 private:
  std::map<uint64_t, int> cached_;
};

TEST(BatchProfileTest, MeasuresWhatASequenceAddsToItsRows) {
  BatchVerifier verifier;
  const absl::StatusOr<double> seconds = MeasureSequenceSeconds(verifier, verifier.clock, {});
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_NEAR(*seconds, 150e-6, 1e-9);
  EXPECT_EQ(verifier.live(), 0);
}

TEST(BatchProfileTest, UsesAsManySequencesAsTheVerifierCanOpen) {
  BatchVerifier verifier;
  verifier.max_sequences = 5;
  EXPECT_NEAR(*MeasureSequenceSeconds(verifier, verifier.clock, {}), 150e-6, 1e-9);
  for (const int rows : verifier.rows_per_call) EXPECT_EQ(rows, 4);
  EXPECT_EQ(verifier.live(), 0);
}

TEST(BatchProfileTest, UsesAsManySequencesAsTheCacheHolds) {
  BatchVerifier verifier;
  verifier.info.page_tokens = 16;
  // Two pages for each of 8 sequences, and a context of 16 and 11 trees of 8 rows for one more.
  verifier.info.kv_tokens = 8 * 32 + 112;
  EXPECT_NEAR(*MeasureSequenceSeconds(verifier, verifier.clock, {}), 150e-6, 1e-9);
  for (const int rows : verifier.rows_per_call) EXPECT_EQ(rows, 8);
}

TEST(BatchProfileTest, IsZeroIfOnlyTwoSequencesFitOrSequencesAreCheaperThanRows) {
  BatchVerifier small;
  small.max_sequences = 2;
  EXPECT_EQ(*MeasureSequenceSeconds(small, small.clock, {}), 0);
  EXPECT_EQ(small.live(), 0);
  BatchVerifier cheap;
  cheap.per_sequence = -absl::Microseconds(10);
  EXPECT_EQ(*MeasureSequenceSeconds(cheap, cheap.clock, {}), 0);
}

TEST(BatchProfileTest, StopsAtTheTimeLimit) {
  BatchVerifier verifier;
  EXPECT_NEAR(*MeasureSequenceSeconds(verifier, verifier.clock, {.time_limit = absl::Seconds(0)}),
              150e-6, 1e-9);
  EXPECT_EQ(verifier.rows_per_call.size(), 4);  // Warm-up and one repetition.
}

TEST(BatchProfileTest, ReturnsTheVerifiersErrorAndLeavesNoSequenceOpen) {
  BatchVerifier verifier;
  verifier.fails = true;
  EXPECT_TRUE(absl::IsUnavailable(MeasureSequenceSeconds(verifier, verifier.clock, {}).status()));
  EXPECT_EQ(verifier.live(), 0);
}

}  // namespace
}  // namespace bastion
