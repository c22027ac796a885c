#include "common/base/command_line.h"

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(std::string, model_folder, "", "Folder of the model.");
ABSL_FLAG(int, max_new_tokens, 128, "Maximum number of tokens to generate.");
ABSL_FLAG(
    bool, ignore_eos, false,
    "Generate to the limit even if the model ends the text. Without this flag, the answer ends "
    "at the first end-of-text token.");
ABSL_FLAG(std::vector<std::string>, listen, {}, "Addresses to listen on.");
ABSL_FLAG(std::string, latency_profile, "", "A flag that had another name.");
ABSL_FLAG(double, forgotten, 0.5, "A flag that no group lists.");

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ProgramInfo Info() {
  return {.summary = "Does something.",
          .usage = "--model-folder DIR",
          .example = "--model-folder here",
          .required = {"model_folder"},
          .groups = {{"Model", {"model_folder DIR"}},
                     {"Text", {"max_new_tokens N", "ignore_eos"}},
                     {"Connections", {"listen ADDRESSES"}}},
          .notes = "A note."};
}

// Owns argc and argv of a command line.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
    for (std::string& argument : arguments_) argv_.push_back(argument.data());
  }
  int count() const { return static_cast<int>(argv_.size()); }
  char** values() { return argv_.data(); }
  const std::vector<std::string>& texts() const { return arguments_; }

 private:
  std::vector<std::string> arguments_;
  std::vector<char*> argv_;
};

absl::Status CheckNames(std::vector<std::string> texts) {
  Arguments arguments(std::move(texts));
  UnderscoreFlagNames(arguments.count(), arguments.values());
  return CheckFlagNames(arguments.count(), arguments.values());
}

std::vector<std::string> Renamed(std::vector<std::string> texts) {
  Arguments arguments(std::move(texts));
  UnderscoreFlagNames(arguments.count(), arguments.values());
  return arguments.texts();
}

TEST(RenameOldFlagsTest, OldNamesOfFlagsMeanTheNewOnes) {
  Arguments arguments({"program", "--calibration-table=a=b", "--calibration_table", "c",
                       "--calibration_limit=3s", "--", "--calibration_table"});
  UnderscoreFlagNames(arguments.count(), arguments.values());
  RenameOldFlags(arguments.count(), arguments.values());
  const std::vector<std::string> renamed(arguments.values(),
                                         arguments.values() + arguments.count());
  // This program has no --profile_limit.
  EXPECT_THAT(renamed, ElementsAre("program", "--latency_profile=a=b", "--latency_profile", "c",
                                   "--calibration_limit=3s", "--", "--calibration_table"));
}

TEST(UnderscoreFlagNamesTest, ChangesOnlyFlagNames) {
  EXPECT_EQ(Renamed({"my-program", "--max-new-tokens", "a-b", "--prompt-file=x-y", "-v-w", "c-d"}),
            (std::vector<std::string>{"my-program", "--max_new_tokens", "a-b", "--prompt_file=x-y",
                                      "-v-w", "c-d"}));
}

TEST(UnderscoreFlagNamesTest, ChangesNothingAfterALoneDoubleDash) {
  EXPECT_EQ(Renamed({"p", "--", "--a-b"}), (std::vector<std::string>{"p", "--", "--a-b"}));
}

TEST(CheckFlagNamesTest, KnownFlagsPass) {
  EXPECT_TRUE(CheckNames({"p", "--model-folder", "x", "--max_new_tokens=3", "--ignore_eos"}).ok());
  EXPECT_TRUE(CheckNames({"p", "--noignore_eos", "command", "--", "--whatever"}).ok());
}

TEST(CheckFlagNamesTest, AValueThatLooksLikeAFlagIsNotChecked) {
  EXPECT_TRUE(CheckNames({"p", "--model-folder", "--odd-folder"}).ok());
}

TEST(CheckFlagNamesTest, AMisspelledFlagGetsASuggestion) {
  const absl::Status status = CheckNames({"p", "--max-new-token", "3"});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("unknown flag --max_new_token; did you mean "
                                          "--max_new_tokens?"));
}

TEST(CheckFlagNamesTest, AFlagUnlikeAllOthersGetsNoSuggestion) {
  const absl::Status status = CheckNames({"p", "--zzzzzzzzzz"});
  EXPECT_THAT(status.message(), HasSubstr("unknown flag --zzzzzzzzzz"));
  EXPECT_THAT(status.message(), Not(HasSubstr("did you mean")));
}

TEST(CheckFlagNamesTest, OnlyBooleanFlagsCanBeNegated) {
  EXPECT_FALSE(CheckNames({"p", "--nomax_new_tokens"}).ok());
}

TEST(CheckRequiredFlagsTest, AMissingFlagIsReportedWithAnExample) {
  absl::SetFlag(&FLAGS_model_folder, "");
  EXPECT_EQ(CheckRequiredFlags("program", Info()),
            absl::InvalidArgumentError(
                "--model_folder is missing. Example: program --model-folder here"));
  absl::SetFlag(&FLAGS_model_folder, "there");
  EXPECT_TRUE(CheckRequiredFlags("program", Info()).ok());
  absl::SetFlag(&FLAGS_model_folder, "");
}

TEST(CheckAddressFlagsTest, AWrongPortIsReportedWithItsFlag) {
  absl::SetFlag(&FLAGS_listen, {"unix:///run/a:b", "host:80"});
  EXPECT_TRUE(CheckAddressFlags(Info()).ok());
  absl::SetFlag(&FLAGS_listen, {"unix:///run/a:b", "host:99999"});
  EXPECT_EQ(CheckAddressFlags(Info()),
            absl::InvalidArgumentError("--listen: the port of \"host:99999\" is \"99999\"; it must "
                                       "be a number from 0 to 65535"));
  absl::SetFlag(&FLAGS_listen, {});
}

TEST(HelpTextTest, FlagsAreGroupedWithPlaceholdersAndDefaults) {
  const std::string help = HelpText("program", Info());
  EXPECT_THAT(help, HasSubstr("Does something.\n\nUsage:   program --model-folder DIR\n"
                              "Example: program --model-folder here\n\nModel\n"
                              "  --model_folder DIR          Folder of the model. Required.\n\n"
                              "Text\n"
                              "  --max_new_tokens N          Maximum number of tokens to generate. "
                              "Default: 128.\n"));
  EXPECT_THAT(help, HasSubstr("\nOther\n  --forgotten                 A flag that no group lists. "
                              "Default: 0.5.\n"));
  EXPECT_THAT(help, HasSubstr("\nA note.\n"));
}

TEST(HelpTextTest, LongTextIsWrappedAtTheLineWidth) {
  const std::string help = HelpText("program", Info());
  size_t begin = 0;
  for (size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(HasArgumentTest, StopsAtALoneDoubleDash) {
  Arguments arguments({"p", "-h", "--", "--version"});
  EXPECT_TRUE(HasArgument(arguments.count(), arguments.values(), "--help", "-h"));
  EXPECT_FALSE(HasArgument(arguments.count(), arguments.values(), "--version", "-V"));
}

}  // namespace
}  // namespace bastion
