#include "tools/bench/flag_values.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(FlagValuesTest, NumbersArePositiveAndOfTheirType) {
  EXPECT_THAT(*ParseNumbers<int>("--rows", {"1", "64"}), ElementsAre(1, 64));
  EXPECT_THAT(*ParseNumbers<double>("--rate", {"0.5"}), ElementsAre(0.5));
  for (const char* const text : {"0", "-1", "1.5", "many", "2000000"}) {
    EXPECT_THAT(ParseNumbers<int>("--rows", {text}).status().message(), HasSubstr("--rows"))
        << text;
  }
}

TEST(FlagValuesTest, FoldersHaveNamesAndExist) {
  const testing::TempFolder folder;
  EXPECT_THAT(*ParseFolders("--drafters", {"a=" + folder.File("."), "b=" + folder.File(".")}),
              ElementsAre(Pair("a", folder.File(".")), Pair("b", folder.File("."))));
  const std::string wrong[] = {"a", "a=", "=" + folder.File("."), "a=" + folder.File("none")};
  for (const std::string& text : wrong) {
    EXPECT_THAT(ParseFolders("--drafters", {text}).status().message(), HasSubstr("--drafters"))
        << text;
  }
}

}  // namespace
}  // namespace bastion
