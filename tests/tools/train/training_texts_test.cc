#include "tools/train/prior/training_texts.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

class TrainingTextsTest : public ::testing::Test {
 protected:
  TrainingTextsTest() { folder_.Write("tokenizer.json", testing::ByteLevelTokenizerJson().dump()); }
  absl::Status Read(const std::vector<std::string>& names) {
    std::vector<std::string> files;
    for (const std::string& name : names) files.push_back(folder_.File(name));
    texts_.clear();
    done_ = total_ = 0;
    return ForEachText(
        files, folder_.path(),
        [&](absl::Span<const TokenId> text) {
          texts_.emplace_back(text.begin(), text.end());
          return text.size() == 1 && text[0] == 999 ? absl::InvalidArgumentError("too large")
                                                    : absl::OkStatus();
        },
        [&](int64_t done, int64_t total) {
          EXPECT_LE(done_, done);
          done_ = done;
          total_ = total;
        });
  }
  void ExpectRefused(const std::string& name, const std::string& where, const std::string& reason) {
    const absl::Status status = Read({name});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(folder_.File(where) + ": "));
    EXPECT_THAT(status.message(), HasSubstr(reason));
  }
  TempFolder folder_;
  std::vector<std::vector<TokenId>> texts_;
  int64_t done_ = 0, total_ = 0;
};

TEST_F(TrainingTextsTest, ReadsTextFilesAndJsonLines) {
  folder_.Write("a.txt", "the\nin");
  folder_.Write("b.jsonl",
                "{\"text\": \"the\", \"id\": 7}\n\n{\"token_ids\": [5, 0, 6], \"text\": null}\n"
                "{\"token_ids\": []}");
  ASSERT_TRUE(Read({"a.txt", "b.jsonl"}).ok());
  EXPECT_THAT(texts_, ElementsAre(ElementsAre(257, '\n', 263), ElementsAre(257),
                                  ElementsAre(5, 0, 6), ElementsAre()));
  EXPECT_EQ(done_, total_);
  EXPECT_GT(total_, 70);
}

TEST_F(TrainingTextsTest, TokenIdsNeedNoTokenizer) {
  ASSERT_EQ(std::remove(folder_.File("tokenizer.json").c_str()), 0);
  folder_.Write("a.jsonl", "{\"token_ids\": [1, 2]}\n{\"text\": \"x\"}\n");
  const absl::Status status = Read({"a.jsonl"});
  EXPECT_THAT(texts_, ElementsAre(ElementsAre(1, 2)));
  EXPECT_THAT(status.message(), HasSubstr("a.jsonl:2: "));
  EXPECT_THAT(status.message(), HasSubstr("tokenizer.json"));
}

TEST_F(TrainingTextsTest, RefusesLinesWithoutAText) {
  folder_.Write("a.jsonl", "{\"token_ids\": [1]}\nnot json\n");
  ExpectRefused("a.jsonl", "a.jsonl:2", "must be a JSON object with");
  folder_.Write("b.jsonl", "{\"prompt\": \"x\"}\n");
  ExpectRefused("b.jsonl", "b.jsonl:1", "must be a JSON object with");
  folder_.Write("c.jsonl", "\n\n[1, 2]\n");
  ExpectRefused("c.jsonl", "c.jsonl:3", "must be a JSON object with");
}

TEST_F(TrainingTextsTest, RefusesInvalidTokenIds) {
  folder_.Write("a.jsonl", "{\"token_ids\": [1, 2.5]}\n");
  ExpectRefused("a.jsonl", "a.jsonl:1", "token_ids must be integers");
  for (const char* id : {"-1", "2147483648", "18446744073709551615", "4294967296"}) {
    folder_.Write("a.jsonl", std::string("{\"token_ids\": [") + id + "]}\n");
    ExpectRefused("a.jsonl", "a.jsonl:1", std::string("token_ids: ") + id + " is not a token id");
  }
}

TEST_F(TrainingTextsTest, ErrorsOfTheCallbackNameTheLine) {
  folder_.Write("a.jsonl", "{\"token_ids\": [1]}\n{\"token_ids\": [999]}\n");
  ExpectRefused("a.jsonl", "a.jsonl:2", "too large");
}

TEST_F(TrainingTextsTest, RefusesTextThatIsNotUtf8) {
  folder_.Write("a.txt", "the \xFF");
  ExpectRefused("a.txt", "a.txt", "UTF-8");
  folder_.Write("a.jsonl", "{\"text\": \"\xFF\"}\n");
  ExpectRefused("a.jsonl", "a.jsonl:1", "must be a JSON object with");
}

TEST_F(TrainingTextsTest, RefusesFilesThatCannotBeRead) {
  ExpectRefused("none.txt", "none.txt", "cannot read the file");
  ExpectRefused("tokenizer.json", "tokenizer.json", "must be a .txt or .jsonl file");
  std::filesystem::create_directory(folder_.File("folder.txt"));
  ExpectRefused("folder.txt", "folder.txt", "cannot read the file");
}

}  // namespace
}  // namespace bastion::drafter
