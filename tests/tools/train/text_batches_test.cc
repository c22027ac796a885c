// The texts of a step and their features: a resumed run gets the same bits, within the memory that
// the pool may take.
#include "tools/train/loop/text_batches.h"
// After torch.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/golden_file.h"

namespace bastion::train {
namespace {

constexpr int kTexts = 40;
constexpr int kLongest = 34;  // Tokens.

class TextBatchesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    auto target = FrozenTarget::Load(folder_);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
  }

  absl::StatusOr<std::unique_ptr<TextBatches>> Create(const BatchOptions& options) const {
    std::vector<TeacherText> texts(kTexts);
    for (int i = 0; i < kTexts; ++i) {
      texts[i].prompt_tokens = 3;
      for (int t = 0; t < kLongest - i % 5; ++t) texts[i].tokens.push_back((7 * i + 5 * t) % 90);
    }
    return TextBatches::Create(std::move(texts), target_,
                               {.target_folder = folder_, .device = {.threads = 1}, .layers = {1}},
                               options);
  }
  static BatchOptions Options() { return {.texts = 2, .pool_bytes = PoolBytes(), .uses = 3}; }
  // Eight texts.
  static int64_t PoolBytes() { return 8 * kLongest * kRowBytes; }

  static constexpr int64_t kRowBytes = int64_t{2} * 2 * 40;  // Two layers in bf16.
  const std::string folder_ = testing::GoldenFolder("gqa1_tied_draft1") + "/target";
  FrozenTarget target_;
};

TEST_F(TextBatchesTest, ALaterStepDoesNotDependOnTheStepsThatWereRead) {
  const auto whole = Create(Options()), resumed = Create(Options());
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  for (int step = 1; step <= 60; ++step) {
    const auto expected = (*whole)->Next(step);
    ASSERT_TRUE(expected.ok()) << expected.status();
    if (step < 40) continue;
    const auto actual = (*resumed)->Next(step);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_TRUE(at::equal(actual->tokens, expected->tokens)) << step;
    EXPECT_TRUE(at::equal(actual->lengths, expected->lengths)) << step;
    EXPECT_TRUE(at::equal(actual->features, expected->features)) << step;
    EXPECT_TRUE(at::equal(actual->head_input, expected->head_input)) << step;
  }
}

TEST_F(TextBatchesTest, ThePoolStaysWithinItsMemory) {
  const auto batches = Create(Options());
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ((*batches)->pool_size(), 8);
  int64_t most = 0;
  for (int step = 1; step <= 100; ++step) {
    ASSERT_TRUE((*batches)->Next(step).ok());
    most = std::max(most, (*batches)->held_bytes());
  }
  EXPECT_LE(most, PoolBytes());
  EXPECT_GT(most, PoolBytes() / 2);
}

TEST_F(TextBatchesTest, AllTextsMayFitIntoThePool) {
  BatchOptions options = Options();
  options.pool_bytes = int64_t{1} << 30;
  const auto batches = Create(options);
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ((*batches)->pool_size(), kTexts);
}

TEST_F(TextBatchesTest, APoolThatIsTooSmallForTwoStepsIsRefusedByName) {
  BatchOptions options = Options();
  options.pool_bytes = 3 * kLongest * kRowBytes;
  const absl::Status small = Create(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(small)) << small;
  EXPECT_TRUE(absl::StrContains(small.message(), "--pool_bytes is")) << small;
  options = Options();
  options.texts = kTexts / 2 + 1;
  const absl::Status few = Create(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(few)) << few;
  EXPECT_TRUE(absl::StrContains(few.message(), "--texts")) << few;
}

}  // namespace
}  // namespace bastion::train
