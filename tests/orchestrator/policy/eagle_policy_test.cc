#include "orchestrator/policy/eagle_policy.h"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/orchestrator/policy/policy_fixture.h"

namespace bastion {
namespace {

using EaglePolicyTest = PolicyFixture;

std::vector<int> NumbersOf(std::optional<std::string_view> argument) {
  const std::unique_ptr<const PolicyKind> kind = EaglePolicy::Parse(argument);
  if (kind == nullptr) return {};
  const EagleShape& shape = dynamic_cast<const EaglePolicy&>(*kind).shape();
  return {shape.width, shape.depth, shape.nodes};
}

TEST_F(EaglePolicyTest, MissingNumbersHaveTheAuthorsDefaults) {
  EXPECT_EQ(NumbersOf(std::nullopt), (std::vector<int>{10, 7, 60}));
  EXPECT_EQ(NumbersOf("8"), (std::vector<int>{8, 7, 60}));
  EXPECT_EQ(NumbersOf("8,5"), (std::vector<int>{8, 5, 60}));
  EXPECT_EQ(NumbersOf("8,5,63"), (std::vector<int>{8, 5, 63}));
  EXPECT_EQ(NumbersOf("64,64,4096"), (std::vector<int>{64, 64, 4096}));
  EXPECT_EQ(NumbersOf(""), std::vector<int>());
}

TEST_F(EaglePolicyTest, EveryRoundOfTheDefaultCanAddALevel) {
  EXPECT_EQ(EaglePolicy(EagleShape()).max_rounds(), 8);
}

TEST_F(EaglePolicyTest, NCountsTheRoot) {
  EXPECT_EQ(Grow("eagle").tree.rows(), 60);
  EXPECT_EQ(Grow("eagle:10,7,2").tree.nodes(), 1);
  EXPECT_EQ(Grow("eagle:2,1,4096").tree.nodes(), 2 + 4);
}

TEST_F(EaglePolicyTest, ALimitKeepsTheBestNodes) {
  for (int nodes = 1; nodes <= 59; ++nodes) {
    const GrownTree limited = Grow("eagle", {100, nodes, 15, BudgetReason::kRequestLimit});
    EXPECT_EQ(limited.tree, GrowEagle(kRoot, candidates_, {.nodes = nodes + 1}));
    EXPECT_EQ(limited.reason, nodes == 59 ? BudgetReason::kPolicy : BudgetReason::kRequestLimit);
  }
}

}  // namespace
}  // namespace bastion
