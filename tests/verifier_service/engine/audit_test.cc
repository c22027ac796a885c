#include "verifier_service/engine/audit.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/program/local_device.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "verifier_service/model/target_model.h"

namespace bastion::verifier {
namespace {

const std::vector<TokenId> kShortPrompt = {3, 141, 59, 26, 53};

class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    target_ = *LoadTarget(testing::GoldenFolder("gqa2_untied_draft2") + "/target",
                          {nn::FormatsFor(WeightFormat::kF32), device_.device, /*kv_tokens=*/256});
    sequences_ = std::make_unique<SequenceTable>(target_->pages(), 4);
  }

  // A sequence whose committed text is `text`.
  Sequence& SequenceOf(const SamplingParams& sampling, const std::vector<TokenId>& text) {
    EXPECT_TRUE(sequences_->Open({1, 0}, sampling).ok());
    Sequence& sequence = **sequences_->Find({1, 0});
    EXPECT_TRUE(target_->pages().Reserve(sequence.table, static_cast<int>(text.size())).ok());
    nn::RowBatch batch;
    batch.AddRun({&sequence.table, 0, kernels::RowMask::kCausal}, text);
    TimingTrace trace;
    EXPECT_TRUE(target_->Verify(batch, {}, trace).ok());
    for (const TokenId token : text) sequence.Commit(token);
    return sequence;
  }

  // Returns the token that plain decoding generates after kShortPrompt. It is found with the audit
  // itself, which reports a mismatch for every other token.
  TokenId PlainNext(const SamplingParams& sampling) {
    for (TokenId token = 0;; ++token) {
      Sequence& sequence = SequenceOf(sampling, kShortPrompt);
      Audit audit({1.0, 0.0}, target_.get());
      audit.Check({{1, 0}, 4, DraftTree(kShortPrompt[4])}, {{}, token}, sequence);
      EXPECT_EQ(audit.counts().tokens, 1);
      sequences_->Close({1, 0});
      if (audit.counts().mismatches == 0) return token;
    }
  }

  nn::LocalDevice device_ = *nn::OpenLocalDevice(2);
  std::unique_ptr<Target> target_;
  std::unique_ptr<SequenceTable> sequences_;
};

TEST_F(AuditTest, AWronglyAcceptedTokenIsAMismatch) {
  SamplingParams sampling = {{0.8f, 5}, 1.3f};
  sampling.prompt_tokens = 5;
  const TokenId right = PlainNext(sampling);
  DraftTree tree(kShortPrompt[4]);
  const NodeIndex good = tree.Add(0, right, -1.0f);
  const NodeIndex bad = tree.Add(0, (right + 1) % 100, -2.0f);
  std::vector<TokenId> text = kShortPrompt;
  text.push_back(tree.token(bad));
  Sequence& sequence = SequenceOf(sampling, text);
  Audit audit({1.0, 0.0}, target_.get());
  audit.Check({{1, 0}, 4, tree}, {{bad}, 7}, sequence);
  EXPECT_GE(audit.counts().mismatches, 1);
  EXPECT_EQ(audit.counts().tokens, 2);
  EXPECT_EQ(audit.counts().cycles, 1);
  EXPECT_EQ(sequence.history.tokens(), text);
  EXPECT_NE(good, bad);
}

TEST_F(AuditTest, TheLogHasTokensOnlyIfTheyMayBeShown) {
  const TokenId right = PlainNext({}), wrong = (right + 1) % 100;
  for (const bool show : {false, true}) {
    Sequence& sequence = SequenceOf({}, kShortPrompt);
    Audit audit({1.0, 0.0, show}, target_.get());
    ::testing::internal::CaptureStderr();
    audit.Check({{1, 0}, 4, DraftTree(kShortPrompt[4])}, {{}, wrong}, sequence);
    const std::string log = ::testing::internal::GetCapturedStderr();
    sequences_->Close({1, 0});
    EXPECT_NE(log.find("audit: "), std::string::npos) << log;
    const std::string tokens = absl::StrCat("token ", wrong, ", but plain decoding chose ", right);
    EXPECT_EQ(log.find(tokens) != std::string::npos, show) << log;
    EXPECT_EQ(log.find(absl::StrCat("token ", wrong)) != std::string::npos, show) << log;
  }
}

TEST_F(AuditTest, ADifferenceWithinTheToleranceIsRounding) {
  const TokenId right = PlainNext({});
  Sequence& sequence = SequenceOf({}, kShortPrompt);
  Audit lenient({1.0, /*tolerance=*/1000.0}, target_.get());
  lenient.Check({{1, 0}, 4, DraftTree(kShortPrompt[4])}, {{}, (right + 1) % 100}, sequence);
  EXPECT_EQ(lenient.counts().mismatches, 0);
  EXPECT_EQ(lenient.counts().within_tolerance, 1);
}

TEST_F(AuditTest, SelectsTheConfiguredFractionOfCycles) {
  for (const double fraction : {0.0, 0.1, 1.0}) {
    Audit audit({fraction, 0.0}, target_.get());
    int selected = 0;
    for (int i = 0; i < 10000; ++i) selected += audit.SelectNextCycle() ? 1 : 0;
    EXPECT_NEAR(selected, 10000 * fraction, 100) << fraction;
  }
}

}  // namespace
}  // namespace bastion::verifier
