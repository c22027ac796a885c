#include "client/bench/prompts.h"

#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SyntheticPromptsTest, AreValidDistinctAndReproducible) {
  const auto prompts = SyntheticPrompts(100, 50, 3);
  const auto again = SyntheticPrompts(100, 50, 3);
  ASSERT_EQ(prompts.size(), 100u);
  std::set<std::vector<TokenId>> texts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(prompts[i].tokens, again[i].tokens);
    EXPECT_EQ(prompts[i].id, again[i].id);
    EXPECT_GE(prompts[i].tokens.size(), 2u);
    EXPECT_LE(prompts[i].tokens.size(), 40u);
    for (const TokenId token : prompts[i].tokens) EXPECT_TRUE(token >= 0 && token < 50);
    texts.insert(prompts[i].tokens);
  }
  EXPECT_GT(texts.size(), 90u);
}

TEST(SyntheticPromptsTest, SomeRepeatAPhrase) {
  int loops = 0;
  for (const BenchPrompt& prompt : SyntheticPrompts(60, 4096, 1)) {
    const std::set<TokenId> kinds(prompt.tokens.begin(), prompt.tokens.end());
    loops += kinds.size() <= 4 ? 1 : 0;
  }
  EXPECT_GE(loops, 30);
}

class ArrivalsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<TracedArrival>> Load(const std::string& lines) {
    const std::string file = folder_.File("arrivals.jsonl");
    std::ofstream(file) << lines;
    return LoadArrivals(file, folder_.path(), {{"known", {5, 6}}});
  }

  const testing::TempFolder folder_;
};

TEST_F(ArrivalsTest, AreSortedByTimeAndNameTheirPromptOrContainIt) {
  const auto arrivals = Load(R"({"at_seconds": 2.5, "token_ids": [7, 8, 9]}

{"at_seconds": 0, "id": "known", "max_new_tokens": 3}
{"at_seconds": 1, "id": "own", "token_ids": [1]}
)");
  ASSERT_TRUE(arrivals.ok()) << arrivals.status();
  ASSERT_EQ(arrivals->size(), 3u);
  EXPECT_THAT((*arrivals)[0].prompt.tokens, ElementsAre(5, 6));
  EXPECT_EQ((*arrivals)[0].max_new_tokens, 3);
  EXPECT_EQ((*arrivals)[1].prompt.id, "own");
  EXPECT_EQ((*arrivals)[1].max_new_tokens, 0);
  EXPECT_EQ((*arrivals)[2].prompt.id, "arrival-0");
  EXPECT_EQ((*arrivals)[2].at_seconds, 2.5);
}

TEST_F(ArrivalsTest, WrongLinesAreNamed) {
  const auto message = [&](const std::string& line) {
    const auto arrivals = Load("{\"at_seconds\": 0, \"id\": \"known\"}\n" + line + "\n");
    EXPECT_TRUE(absl::IsInvalidArgument(arrivals.status())) << line;
    EXPECT_THAT(std::string(arrivals.status().message()), HasSubstr("arrivals.jsonl:2: ")) << line;
    return std::string(arrivals.status().message());
  };
  EXPECT_THAT(message("not json"), HasSubstr("at_seconds"));
  EXPECT_THAT(message(R"({"id": "known"})"), HasSubstr("at_seconds"));
  EXPECT_THAT(message(R"({"at_seconds": -1, "id": "known"})"), HasSubstr("at_seconds"));
  EXPECT_THAT(message(R"({"at_seconds": 1, "id": "other"})"), HasSubstr("\"other\""));
  EXPECT_THAT(message(R"({"at_seconds": 1, "token_ids": []})"), HasSubstr("no tokens"));
  EXPECT_THAT(message(R"({"at_seconds": 1, "token_ids": [99999999999]})"), HasSubstr("2147483647"));
  EXPECT_THAT(message(R"({"at_seconds": 1, "id": "known", "token_ids": [5]})"),
              HasSubstr("another prompt has the id \"known\""));
  EXPECT_THAT(message(R"({"at_seconds": 1, "id": "known", "max_new_tokens": 0})"),
              HasSubstr("max_new_tokens"));
}

TEST_F(ArrivalsTest, AnEmptyOrMissingFileIsReported) {
  EXPECT_TRUE(absl::IsInvalidArgument(Load("\n").status()));
  EXPECT_TRUE(absl::IsNotFound(LoadArrivals("/nowhere", "", {}).status()));
}

}  // namespace
}  // namespace bastion
