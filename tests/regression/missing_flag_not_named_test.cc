// The bug: `bastionctl verify-exactness` without flags failed with "/tokenizer.json: No such file".
// Every program must name the missing flag or argument and give a working example.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int exit_status = 0;
  std::string output;  // stdout and stderr.
};

Outcome RunCommand(const std::string& arguments) {
  const std::string command = std::string(BASTION_BINARY_DIR) + "/bin/" + arguments + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  outcome.exit_status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

struct MissingCase {
  const char* command;
  const char* missing;
};

class MissingFlagTest : public ::testing::TestWithParam<MissingCase> {};

TEST_P(MissingFlagTest, IsNamedWithAnExample) {
  const Outcome outcome = RunCommand(GetParam().command);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr(GetParam().missing));
  EXPECT_THAT(outcome.output, HasSubstr("Example: bastion"));
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(
    EveryProgram, MissingFlagTest,
    ::testing::Values(MissingCase{"bastionctl verify-exactness", "--target is missing"},
                      MissingCase{"bastionctl verify-exactness --target x", "--drafter is missing"},
                      MissingCase{"bastionctl doctor --drafter x", "--target is missing"},
                      MissingCase{"bastionctl", "the command is missing"},
                      MissingCase{"bastionctl timeline", "-o is missing"},
                      MissingCase{"bastionctl timeline -o x --seconds 90", "--seconds is 90"},
                      MissingCase{"bastionctl generate hello",
                                  "expected one command, got 2 arguments; pass the prompt with "
                                  "--prompt"},
                      MissingCase{"bastion-verifier", "--target is missing"},
                      MissingCase{"bastion-drafter", "--drafter is missing"},
                      MissingCase{"bastion-drafter --drafter x", "--target is missing"},
                      MissingCase{"bastion-orchestrator", "--target is missing"},
                      MissingCase{"bastion-bench", "--target is missing"},
                      MissingCase{"bastion-bench --target x", "--drafter is missing"},
                      MissingCase{"bastion-bench --target x --drafter y", "--prompts is missing"},
                      MissingCase{"bastion-train prior", "--target is missing"}));

class HelpTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HelpTest, ListsEveryFlagInAGroup) {
  const Outcome outcome = RunCommand(std::string(GetParam()) + " --help");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\nUsage:   "));
  EXPECT_THAT(outcome.output, HasSubstr("\nExample: "));
  EXPECT_THAT(outcome.output, HasSubstr("  --"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\nOther\n"))) << "a flag is in no group";
}

TEST_P(HelpTest, VersionIsPrinted) {
  const Outcome outcome = RunCommand(std::string(GetParam()) + " --version");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, StartsWith(std::string(GetParam()) + " "));
}

INSTANTIATE_TEST_SUITE_P(EveryProgram, HelpTest,
                         ::testing::Values("bastionctl", "bastion-doctor",
                                           "bastion-verify-exactness", "bastion-verifier",
                                           "bastion-drafter", "bastion-orchestrator",
                                           "bastion-bench", "bastion-train"));

}  // namespace
}  // namespace bastion
