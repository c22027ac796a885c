#include "common/base/flag_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bastion {
namespace {

std::vector<std::string> Renamed(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  UnderscoreFlagNames(static_cast<int>(argv.size()), argv.data());
  return arguments;
}

TEST(FlagNamesTest, OnlyNamesOfFlagsChange) {
  EXPECT_EQ(Renamed({"my-program", "--max-new-tokens", "a-b", "--prompt-file=x-y", "-v-w", "c-d"}),
            (std::vector<std::string>{"my-program", "--max_new_tokens", "a-b", "--prompt_file=x-y",
                                      "-v-w", "c-d"}));
}

TEST(FlagNamesTest, NothingChangesAfterALoneDoubleDash) {
  EXPECT_EQ(Renamed({"p", "--", "--a-b"}), (std::vector<std::string>{"p", "--", "--a-b"}));
}

}  // namespace
}  // namespace bastion
