#include "drafter_service/replay/acceptance_profile.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

using ::testing::HasSubstr;

TEST(AcceptanceProfileTest, ReadsWhatItWrites) {
  const testing::TempFolder folder;
  const AcceptanceProfile profile = {
      "dflash", "a paper", {{{0.5F, 0.25F}, {0, -1}}, {{0.75F, 0.125F}, {3, 1}}}};
  ASSERT_TRUE(profile.Write(folder.File("profile.json")).ok());
  const auto read = AcceptanceProfile::Read(folder.File("profile.json"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, profile);
  EXPECT_EQ(read->positions(), 2);
}

TEST(AcceptanceProfileTest, ThePublishedProfilesAreValid) {
  const std::string folder =
      std::string(BASTION_SOURCE_DIR) + "/deploy/measure/acceptance_profiles";
  int profiles = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const auto read = AcceptanceProfile::Read(file.path());
    EXPECT_TRUE(read.ok()) << read.status();
    ++profiles;
  }
  EXPECT_GE(profiles, 3);
}

TEST(AcceptanceProfileTest, ErrorsNameTheFileTheBlockAndTheFault) {
  const testing::TempFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "not a JSON object"},
      {"{}", "'name' is missing"},
      {R"({"name": "x"})", "'blocks' must be a list"},
      {R"({"name": "x", "blocks": []})", "has no blocks"},
      {R"({"name": "x", "blocks": [3]})", "block 0 must be an object"},
      {R"({"name": "x", "blocks": [{"top": [0.5], "ranks": []}]})", "block 0: has 1 prob"},
      {R"({"name": "x", "blocks": [{"top": [], "ranks": []}]})", "at least 1"},
      {R"({"name": "x", "blocks": [{"top": ["a"], "ranks": [0]}]})", "must be a list of numbers"},
      {R"({"name": "x", "blocks": [{"top": [1.0], "ranks": [0]}]})", "between 0 and 1"},
      {R"({"name": "x", "blocks": [{"top": [0.5], "ranks": [-2]}]})", "the rank -2"},
      {R"({"name": "x", "blocks": [{"top": [0.5], "ranks": [0.5]}]})", "'ranks' must be"},
      {R"({"name": "x", "blocks": [{"top": [0.5], "ranks": [0]}, {"top": [0.5, 0.5],
           "ranks": [0, 0]}]})",
       "block 1: has 2 probabilities"}};
  for (const auto& [text, fault] : cases) {
    const std::string path = folder.File("profile.json");
    folder.Write("profile.json", text);
    const absl::Status status = AcceptanceProfile::Read(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << status;
    EXPECT_THAT(status.message(), HasSubstr(fault)) << text;
    EXPECT_THAT(status.message(), HasSubstr(path)) << text;
  }
  EXPECT_TRUE(absl::IsNotFound(AcceptanceProfile::Read(folder.File("absent.json")).status()));
}

TEST(AcceptanceProfileTest, AFolderThatDoesNotExistIsAClearError) {
  const AcceptanceProfile profile = {"x", "", {{{0.5F}, {0}}}};
  const absl::Status status = profile.Write("/nowhere/at/all.json");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/at/all.json"));
}

}  // namespace
}  // namespace bastion::drafter
