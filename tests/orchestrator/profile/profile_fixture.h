// The fixture of the tests of the profile: a verifier whose times are known. Header-only.
#ifndef BASTION_TESTS_ORCHESTRATOR_PROFILE_PROFILE_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_PROFILE_PROFILE_FIXTURE_H_

#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/orchestrator/cost/tiny_model.h"
#include "tests/support/manual_clock.h"

namespace bastion {

inline constexpr absl::Duration kTransport = absl::Microseconds(300);

// A verifier whose calls take 1 ms plus 0.1 ms per row (row_microseconds) plus 1 µs per cached
// token, as measured by `clock`. It accepts one node of every second tree, and checks that the
// caller obeys the contract of Verifier.
class TimedVerifier final : public Verifier {
 public:
  explicit TimedVerifier(testing::ManualClock& clock) : clock_(clock) {
    info.dims = testing::TinyDims();
    info.dims.vocabulary = 1000;
    info.max_rows = 16;
    info.max_context = 512;
  }

  static absl::Duration TrueTime(int rows, int context, int row_microseconds = 100) {
    return absl::Microseconds(1000 + row_microseconds * rows + context);
  }

  absl::StatusOr<TargetInfo> Info() override { return info; }

  absl::Status Open(SequenceId sequence, const SamplingParams& /*sampling*/) override {
    EXPECT_EQ(cached_.count(sequence.session), 0u);
    EXPECT_GE(sequence.epoch, next_epoch_[sequence.session]);
    next_epoch_[sequence.session] = sequence.epoch + 1;
    cached_[sequence.session] = 0;
    ++opened;
    return absl::OkStatus();
  }

  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    VerifyResult result;
    for (const PrefillItem& item : prompts) {
      EXPECT_EQ(item.cached, cached_.at(item.sequence.session));
      cached_[item.sequence.session] += static_cast<int>(item.tokens.size());
      result.prompts.push_back(absl::OkStatus());
    }
    if (forest.empty()) return result;
    ++verified;
    if (verified == fail_at) return absl::UnavailableError("gone");
    const VerifyItem& item = forest.at(0);
    int& cached = cached_.at(item.sequence.session);
    EXPECT_EQ(item.cached, cached);
    EXPECT_LE(cached + item.tree.rows(), info.max_context);
    EXPECT_TRUE(item.tree.Validate(info.dims.vocabulary).ok());
    EXPECT_EQ(item.tree.IsChain(), item.tree.rows() <= 2);
    trees.push_back(item.tree);
    contexts.push_back(cached);

    if (!silent) {
      result.trace.forward = slowness * TrueTime(item.tree.rows(), cached, row_microseconds);
    }
    result.trace.experts = experts_per_row * item.tree.rows();
    if (verified == stall_at) result.trace.forward += absl::Seconds(1);
    clock_.Advance(result.trace.forward + kTransport);
    result.outcomes.emplace_back();
    if (item.tree.nodes() > 0 && verified % 2 == 0) result.outcomes[0].acceptance.path = {1};
    if (verified == refuse_at)
      result.outcomes[0].status = absl::ResourceExhaustedError("no blocks");
    cached += result.outcomes[0].acceptance.committed_length();
    return result;
  }

  void Close(SequenceId sequence) override { cached_.erase(sequence.session); }

  int live() const { return static_cast<int>(cached_.size()); }

  TargetInfo info;
  bool silent = false;  // Report empty timing traces.
  int slowness = 1;     // Multiplies all times.
  int row_microseconds = 100;
  double experts_per_row = 0;
  // The Verify call, counted from 1, that fails, whose sequence fails, or that takes 1 s longer.
  int fail_at = -1;
  int refuse_at = -1;
  int stall_at = -1;
  int opened = 0;
  int verified = 0;
  std::vector<DraftTree> trees;
  std::vector<int> contexts;

 private:
  testing::ManualClock& clock_;
  std::map<uint64_t, int> cached_;
  std::map<uint64_t, uint32_t> next_epoch_;
};

class VerifyProfileTest : public ::testing::Test {
 protected:
  VerifyProfileTest() {
    options_.row_counts = {1, 2, 4, 8, 16, 128};
    options_.shared_row_counts = options_.row_counts;
    options_.contexts = {16, 256, 1024};
    options_.repetitions = 3;
  }
  testing::ManualClock clock_;
  TimedVerifier verifier_{clock_};
  ProfileOptions options_;
};

}  // namespace bastion

#endif  // BASTION_TESTS_ORCHESTRATOR_PROFILE_PROFILE_FIXTURE_H_
