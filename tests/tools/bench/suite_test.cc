#include "tools/bench/suite.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json SmallJson() {
  return {{"name", "small"},      {"title", "A small suite"},         {"target", "t"},
          {"drafter", "d"},       {"policies", {"ar", "fixed:4"}},    {"temperatures", {0, 0.5}},
          {"max_new_tokens", 12}, {"tables", {"datasets", "budgets"}}};
}

std::string Problem(const json& suite) {
  return std::string(ParseSuite(suite.dump(), "file").status().message());
}

TEST(SuiteTest, HasTheValuesOfItsTextAndDefaults) {
  const auto suite = ParseSuite(SmallJson().dump(), "file");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->name, "small");
  EXPECT_THAT(suite->policies, ElementsAre("ar", "fixed:4"));
  EXPECT_THAT(suite->grid.temperatures, ElementsAre(0, 0.5));
  EXPECT_THAT(suite->grid.seeds, ElementsAre(1));
  EXPECT_THAT(suite->grid.max_new_tokens, ElementsAre(12));
  EXPECT_EQ(SuiteJson(*ParseSuite(SuiteJson(*suite).dump(), "again")), SuiteJson(*suite));
}

TEST(SuiteTest, ErrorsNameTheFileAndTheKey) {
  EXPECT_THAT(Problem(json::array()), AllOf(HasSubstr("file"), HasSubstr("JSON object")));
  for (const char* const key : {"name", "title", "target", "drafter", "tables"}) {
    json suite = SmallJson();
    suite.erase(key);
    EXPECT_THAT(Problem(suite), AllOf(HasSubstr("file"), HasSubstr(key), HasSubstr("missing")));
  }
  const std::pair<const char*, json> wrong[] = {
      {"warmup", "two"},          {"policies", 3},          {"temperatures", {-1}},
      {"concurrencies", {0}},     {"seeds", json::array()}, {"max_new_tokens", 0},
      {"tables", {"no-such"}},    {"latency_rows", {1}},    {"prompt_tokens", {0}},
      {"no_such_key", "a value"}, {"max_rows", 1}};
  for (const auto& [key, value] : wrong) {
    json suite = SmallJson();
    suite[key] = value;
    EXPECT_THAT(Problem(suite), AllOf(HasSubstr("file"), HasSubstr(key))) << value;
  }
  json suite = SmallJson();
  suite.erase("policies");
  EXPECT_THAT(Problem(suite), HasSubstr("nothing to measure"));
}

TEST(SuiteTest, OverridesReplaceOnlyWhatTheySet) {
  Suite suite = *ParseSuite(SmallJson().dump(), "file");
  SuiteOverrides overrides;
  overrides.models.drafter = "other";
  overrides.temperatures = {1};
  overrides.warmup = 0;
  Apply(overrides, &suite);
  EXPECT_EQ(suite.models.target, "t");
  EXPECT_EQ(suite.models.drafter, "other");
  EXPECT_THAT(suite.grid.temperatures, ElementsAre(1));
  EXPECT_EQ(suite.load.warmup, 0);
  EXPECT_THAT(suite.grid.max_new_tokens, ElementsAre(12));
}

TEST(SuiteTest, ANumberOfNewTokensOrAListIsRead) {
  json suite = SmallJson();
  suite["max_new_tokens"] = {100, 500};
  EXPECT_THAT(ParseSuite(suite.dump(), "file")->grid.max_new_tokens, ElementsAre(100, 500));
  suite["max_new_tokens"] = json::array();
  EXPECT_THAT(Problem(suite), HasSubstr("max_new_tokens must not be empty"));
}

TEST(SuiteTest, AQuickSuiteHasOnePromptPerDatasetAndFewTokens) {
  Suite suite = *ParseSuite(SmallJson().dump(), "file");
  Apply(QuickOverrides(), &suite);
  EXPECT_EQ(suite.load.prompts_per_dataset, 1);
  EXPECT_EQ(suite.load.warmup, 0);
  EXPECT_THAT(suite.grid.max_new_tokens, ElementsAre(16));
  EXPECT_EQ(suite.policies, ParseSuite(SmallJson().dump(), "file")->policies);
}

TEST(SuiteTest, APolicyMayNameItsDrafter) {
  json object = SmallJson();
  object["drafters"] = {{"small", "folder"}};
  object["policies"] = {"ar", "fixed:4", "default+prior@small"};
  Suite suite = *ParseSuite(object.dump(), "file");
  EXPECT_EQ(SuiteJson(*ParseSuite(SuiteJson(suite).dump(), "again")), SuiteJson(suite));
  EXPECT_TRUE(CheckPolicies(suite).ok()) << CheckPolicies(suite);
  EXPECT_EQ(SplitPolicy("default+prior@small").policy, "default+prior");
  EXPECT_EQ(SplitPolicy("default+prior@small").drafter, "small");
  EXPECT_EQ(SplitPolicy("fixed:4").policy, "fixed:4");
  EXPECT_EQ(SplitPolicy("fixed:4").drafter, "");
  suite.policies.emplace_back("chain@large");
  EXPECT_THAT(CheckPolicies(suite).message(),
              AllOf(HasSubstr("chain@large"), HasSubstr("--drafters large=DIR")));
  SuiteOverrides overrides;
  overrides.models.drafters = {{"large", "other"}};
  Apply(overrides, &suite);
  EXPECT_TRUE(CheckPolicies(suite).ok()) << CheckPolicies(suite);
  EXPECT_EQ(suite.models.drafters.at("small"), "folder");
}

TEST(SuiteTest, AnUnknownPolicyAndAMissingBaselineAreRefused) {
  Suite suite = *ParseSuite(SmallJson().dump(), "file");
  EXPECT_TRUE(CheckPolicies(suite).ok());
  suite.policies = {"ar", "no-such-policy"};
  EXPECT_THAT(CheckPolicies(suite).message(),
              AllOf(HasSubstr("small"), HasSubstr("no-such-policy"), HasSubstr("--policies")));
  suite.policies = {"fixed:4"};
  EXPECT_THAT(CheckPolicies(suite).message(), HasSubstr("ar"));
}

TEST(SuiteCatalogTest, EverySuiteParsesUnderItsName) {
  const std::vector<std::string> names = SuiteNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_GE(names.size(), 10u);
  for (const std::string& name : names) {
    const auto suite = FindSuite(name);
    ASSERT_TRUE(suite.ok()) << suite.status();
    EXPECT_EQ(suite->name, name);
    EXPECT_FALSE(suite->reported.empty()) << name;
    EXPECT_TRUE(suite->policies.empty() || suite->policies.front() == "ar") << name;
  }
}

TEST(SuiteCatalogTest, AFileIsASuiteToo) {
  const testing::TempFolder folder;
  folder.Write("mine.json", SmallJson().dump());
  EXPECT_EQ(FindSuite(folder.File("mine.json"))->name, "small");
  EXPECT_TRUE(absl::IsNotFound(FindSuite(folder.File("none.json")).status()));
  EXPECT_THAT(FindSuite("none").status().message(),
              AllOf(HasSubstr("none"), HasSubstr("bastion-fig4"), HasSubstr("ddtree-budgets")));
}

}  // namespace
}  // namespace bastion
