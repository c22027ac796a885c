#include "common/stages/stages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr SequenceId kSequence = {7, 2};

// Commits every prompt, up to `room` tokens.
class CountingVerifier final : public Verifier {
 public:
  absl::StatusOr<TargetInfo> Info() override {
    TargetInfo info;
    info.max_rows = max_rows;
    return info;
  }
  absl::Status Open(SequenceId, const SamplingParams&) override { return absl::OkStatus(); }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    EXPECT_TRUE(forest.empty());
    EXPECT_EQ(prompts.at(0).sequence, kSequence);
    const auto count = static_cast<int>(prompts[0].tokens.size());
    chunks.emplace_back(prompts[0].cached, count);
    tokens.insert(tokens.end(), prompts[0].tokens.begin(), prompts[0].tokens.end());
    VerifyResult result;
    result.trace.rows = count;
    result.trace.forward = absl::Milliseconds(count);
    const bool fits = prompts[0].cached + count <= room;
    result.prompts = {fits ? absl::OkStatus() : absl::ResourceExhaustedError("full")};
    return result;
  }
  void Close(SequenceId) override {}

  int max_rows = 4;
  int room = 10000;
  std::vector<std::pair<Position, int>> chunks;  // Cached tokens and new tokens.
  std::vector<TokenId> tokens;
};

TEST(PrefillTest, CommitsThePromptInChunksOfTheRowLimit) {
  CountingVerifier verifier;
  const auto trace = verifier.Prefill({kSequence, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(verifier.chunks, ElementsAre(Pair(3, 4), Pair(7, 4), Pair(11, 1)));
  EXPECT_THAT(verifier.tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(trace->rows, 9);
  EXPECT_EQ(trace->forward, absl::Milliseconds(9));
  EXPECT_THAT(trace->contexts, ElementsAre(3));
}

TEST(PrefillTest, AHighRowLimitDoesNotMakeHugeChunks) {
  CountingVerifier verifier;
  verifier.max_rows = 5000;
  ASSERT_TRUE(verifier.Prefill({kSequence, 0, std::vector<TokenId>(600, 1)}).ok());
  EXPECT_THAT(verifier.chunks, ElementsAre(Pair(0, 256), Pair(256, 256), Pair(512, 88)));
}

TEST(PrefillTest, AnErrorEndsThePrefill) {
  CountingVerifier verifier;
  verifier.room = 6;
  const auto trace = verifier.Prefill({kSequence, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}});
  EXPECT_TRUE(absl::IsResourceExhausted(trace.status())) << trace.status();
  EXPECT_THAT(verifier.chunks, ElementsAre(Pair(0, 4), Pair(4, 4)));
}

TEST(PrefillTest, NoTokensNeedNoCall) {
  CountingVerifier verifier;
  ASSERT_TRUE(verifier.Prefill({kSequence, 5, {}}).ok());
  EXPECT_TRUE(verifier.chunks.empty());
}

}  // namespace
}  // namespace bastion
