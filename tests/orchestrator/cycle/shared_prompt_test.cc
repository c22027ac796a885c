#include "orchestrator/cycle/shared_prompt.h"

#include "gmock/gmock.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SharedPromptTest, CopiesShareTheTokens) {
  const SharedPrompt first = {5, 17, 3};
  const SharedPrompt second = first;
  EXPECT_EQ(first.data(), second.data());
  EXPECT_THAT(second, ElementsAre(5, 17, 3));
}

TEST(SharedPromptTest, AnAssignmentLeavesCopiesAlone) {
  SharedPrompt first = {5, 17};
  const SharedPrompt copy = first;
  first = std::vector<TokenId>{1};
  EXPECT_THAT(first, ElementsAre(1));
  EXPECT_THAT(copy, ElementsAre(5, 17));
  EXPECT_THAT(SharedPrompt(), IsEmpty());
}

}  // namespace
}  // namespace bastion
