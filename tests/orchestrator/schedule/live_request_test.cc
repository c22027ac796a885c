#include "orchestrator/schedule/live_request.h"

#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"

namespace bastion {
namespace {

TEST(LiveRequestTest, AllAnswersHoldTheSamePrompt) {
  testing::RequestMaker maker;
  const auto first = maker.Make({.prompt = {5, 17, 3}, .answers = 64});
  maker.Admit(*first, 0);
  const std::vector<std::unique_ptr<LiveRequest>> others = first->TakeOtherAnswers();
  ASSERT_EQ(others.size(), 63u);
  const TokenId* const tokens = first->request().decode.prompt.data();
  EXPECT_EQ(first->sequence().request().prompt.data(), tokens);
  uint64_t admission = 1;
  for (const auto& other : others) {
    maker.Admit(*other, admission++);
    EXPECT_EQ(other->sequence().request().prompt.data(), tokens);
  }
}

}  // namespace
}  // namespace bastion
