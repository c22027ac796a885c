#include "orchestrator/profile/yielding_verifier.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "orchestrator/profile/random_tree.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/orchestrator/cost/tiny_model.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

constexpr absl::Duration kOthersCall = absl::Milliseconds(20);

// A verifier whose calls take 1 ms per row. Another user keeps it busy with calls of kOthersCall,
// one right after the other, from call number `busy_from` on.
class SharedVerifier final : public Verifier {
 public:
  explicit SharedVerifier(testing::ManualClock& clock) : clock_(clock) {}

  absl::StatusOr<TargetInfo> Info() override {
    TargetInfo info;
    info.dims = testing::TinyDims();
    info.dims.vocabulary = 1000;
    info.max_rows = 16;
    info.max_context = 512;
    return info;
  }
  absl::Status Open(SequenceId, const SamplingParams&) override { return absl::OkStatus(); }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    VerifyResult result;
    if (++calls >= busy_from) result.trace.queue = kOthersCall;
    int rows = 0;
    for (const PrefillItem& item : prompts) {
      rows += static_cast<int>(item.tokens.size());
      result.prompts.push_back(absl::OkStatus());
    }
    for (const VerifyItem& item : forest) rows += item.tree.rows();
    result.outcomes.resize(forest.size());
    result.trace.forward = rows * absl::Milliseconds(1);
    used += result.trace.forward;
    longest = std::max(longest, result.trace.forward);
    clock_.Advance(result.trace.queue + result.trace.forward);
    return result;
  }
  void Close(SequenceId) override {}

  int busy_from = 1;
  int calls = 0;
  absl::Duration used;     // By the calls of this user.
  absl::Duration longest;  // The longest one.

 private:
  testing::ManualClock& clock_;
};

class YieldingVerifierTest : public ::testing::Test {
 protected:
  absl::StatusOr<LatencyProfile> ProfileFor(absl::Duration limit) {
    ProfileOptions options;
    options.row_counts = {1, 2, 4, 8, 16};
    options.contexts = {16, 64};
    options.repetitions = 100;
    options.time_limit = limit;
    return MeasureProfile(yielding_, clock_, options);
  }

  testing::ManualClock clock_;
  SharedVerifier verifier_{clock_};
  absl::Duration paused_;
  absl::Duration oversleeps_;  // Each pause takes this much longer.
  YieldingVerifier yielding_{&verifier_, clock_, [this](absl::Duration pause) {
                               paused_ += pause;
                               clock_.Advance(pause + oversleeps_);
                             }};
};

TEST_F(YieldingVerifierTest, AProfileTakesAtMostItsShareOfASharedVerifier) {
  const auto table = ProfileFor(absl::Seconds(10));
  ASSERT_TRUE(table.ok()) << table.status();
  const absl::Duration all = clock_.Now();
  EXPECT_GE(all, absl::Seconds(5));
  // No call follows after the pause of the last one.
  EXPECT_LE(verifier_.used - verifier_.longest, YieldingVerifier::kShare * all);
  for (const ProfilePoint& point : table->points) {
    EXPECT_NEAR(point.seconds, 1e-3 * point.rows, 1e-9);
    EXPECT_NEAR(point.round_trip_seconds, point.seconds, 1e-9) << "without the queue and the pause";
  }
}

TEST_F(YieldingVerifierTest, AloneItNeverPauses) {
  verifier_.busy_from = 1000000;
  ASSERT_TRUE(ProfileFor(absl::Seconds(10)).ok());
  EXPECT_EQ(paused_, absl::ZeroDuration());
}

TEST_F(YieldingVerifierTest, PausesOnceAnotherUserHasBeenNoticed) {
  verifier_.busy_from = 3;
  const DraftTree tree = RandomTree(4, 100, 1);
  for (int call = 1; call <= 4; ++call) {
    const auto result = yielding_.Verify({{{1, 0}, 10, tree}}, {});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(paused_, call < 4 ? absl::ZeroDuration() : absl::Milliseconds(12));
    const absl::Duration waited = call < 3 ? absl::ZeroDuration() : kOthersCall;
    EXPECT_EQ(result->trace.queue, waited + paused_);
  }
}

TEST_F(YieldingVerifierTest, APauseThatTakesLongerCountsAsQueue) {
  oversleeps_ = absl::Milliseconds(7);
  const DraftTree tree = RandomTree(4, 100, 1);
  ASSERT_TRUE(yielding_.Verify({{{1, 0}, 10, tree}}, {}).ok());
  const auto result = yielding_.Verify({{{1, 0}, 10, tree}}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(paused_, absl::Milliseconds(12));
  EXPECT_EQ(result->trace.queue, kOthersCall + paused_ + oversleeps_);
}

}  // namespace
}  // namespace bastion
