// The bug: Frontier.new_tokens was cleared before the Expand call. If the call failed or timed out,
// a drafter that depends on token ids never received these tokens.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/fake_stages.h"
#include "tests/support/linear_costs.h"

namespace bastion {
namespace {

using ::bastion::testing::FakeDrafter;
using ::bastion::testing::FakeVerifier;
using ::testing::ElementsAreArray;

const std::vector<TokenId> kPrompt = {5, 17, 3, 88, 42};

class TokensAfterFailedExpandTest : public ::testing::TestWithParam<absl::StatusCode> {
 protected:
  TokensAfterFailedExpandTest() {
    DecodeRequest request;
    request.id = {1, 0};
    request.prompt = kPrompt;
    request.max_tokens = 60;
    sequence_.emplace(std::move(request),
                      Policy::Parse("chain:3")->NewRequest(/*greedy=*/true, &costs_, &memory_));
    cycle_.Open(*sequence_);
    while (cycle_.Prefill(*sequence_, /*max_tokens=*/2)) {
    }
  }

  void Step() { ASSERT_TRUE(cycle_.Step({&*sequence_}).ok()); }

  // The tokens at positions [0, committed).
  std::vector<TokenId> Committed() const {
    std::vector<TokenId> tokens = kPrompt;
    tokens.insert(tokens.end(), sequence_->output().begin(), sequence_->output().end());
    tokens.resize(sequence_->committed());
    return tokens;
  }

  FakeVerifier verifier_;
  FakeDrafter drafter_{&verifier_};
  CostModel costs_ = *CostModel::Fit(*verifier_.Info(), testing::LinearTable());
  SharedLearning memory_;
  DecodeCycle cycle_{*verifier_.Info(), &drafter_, &verifier_, &costs_, &Clock::Real()};
  std::optional<DecodeSequence> sequence_;
};

TEST_P(TokensAfterFailedExpandTest, TheNextFrontierContainsAllTokens) {
  Step();
  drafter_.call_error = absl::Status(GetParam(), "no answer");
  Step();
  Step();
  drafter_.call_error.reset();
  const std::vector<TokenId> committed = Committed();
  Step();
  EXPECT_THAT(drafter_.frontiers.back().new_tokens, ElementsAreArray(committed));
  EXPECT_EQ(drafter_.frontiers.back().committed, static_cast<Position>(committed.size()));
}

TEST_P(TokensAfterFailedExpandTest, AfterASuccessTheFrontierContainsOnlyNewTokens) {
  Step();
  const Position before = sequence_->committed();
  Step();
  const std::vector<TokenId> committed = Committed();
  Step();
  EXPECT_THAT(drafter_.frontiers.back().new_tokens,
              ElementsAreArray(committed.begin() + before, committed.end()));
}

INSTANTIATE_TEST_SUITE_P(Failed, TokensAfterFailedExpandTest,
                         ::testing::Values(absl::StatusCode::kUnavailable));
INSTANTIATE_TEST_SUITE_P(Late, TokensAfterFailedExpandTest,
                         ::testing::Values(absl::StatusCode::kDeadlineExceeded));

}  // namespace
}  // namespace bastion
