// Calls of tools in recorded outputs of models (recorded_calls.json), whole and in pieces, and
// reasoning.
#include "orchestrator/openai/tool_call_reader.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/openai/reasoning_reader.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Calls = std::vector<std::pair<std::string, std::string>>;

struct Whole {
  std::string content;
  Calls calls;
};

void Add(const ToolCallText& text, Whole* whole) {
  whole->content += text.content;
  for (const ToolCallDelta& delta : text.calls) {
    if (!delta.name.empty()) whole->calls.emplace_back(delta.name, "");
    ASSERT_EQ(delta.index, static_cast<int>(whole->calls.size()) - 1);
    whole->calls.back().second += delta.arguments;
  }
}

// Reads `text` in pieces of `size` bytes.
Whole Read(const ToolCallReader::Options& options, const std::string& text, size_t size) {
  ToolCallReader reader(options);
  Whole whole;
  for (size_t at = 0; at < text.size(); at += size) Add(reader.Push(text.substr(at, size)), &whole);
  Add(reader.Finish(), &whole);
  return whole;
}

const std::set<std::string> kNames = {"get_weather", "get_time"};

TEST(ToolCallReaderTest, RecordedOutputsGiveTheirCallsInPiecesOfAllSizes) {
  std::ifstream file(BASTION_SOURCE_DIR "/tests/orchestrator/openai/recorded_calls.json");
  const json recorded = json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_GT(recorded.size(), 20u);
  for (const json& entry : recorded) {
    const ToolCallReader::Options options = {*ParseToolFormat(entry["format"].get<std::string>()),
                                             kNames};
    const std::string text = entry["text"];
    for (const size_t size : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, text.size()}) {
      SCOPED_TRACE(entry["name"].get<std::string>() + " in pieces of " + std::to_string(size));
      const Whole whole = Read(options, text, size);
      EXPECT_EQ(whole.content, entry.value("content", ""));
      EXPECT_EQ(whole.calls, entry.value("calls", Calls()));
    }
  }
}

TEST(ToolCallReaderTest, AnyTextReadsTheSameInOnePieceAndByteByByte) {
  const std::vector<std::string> parts = {"{\"name\": \"get_time\"",
                                          "{\"name\": \"other\"",
                                          "{\"name\": 5",
                                          ", \"arguments\": ",
                                          "{\"zone\": 1}",
                                          "\"{}\"",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          ", ",
                                          "; ",
                                          "\"",
                                          "\\\"",
                                          " ",
                                          "\n",
                                          "text",
                                          "<tool_call>",
                                          "</tool_call>",
                                          "</tool_",
                                          "<tool",
                                          "[TOOL_CALLS]",
                                          "<|python_tag|>",
                                          "null"};
  std::minstd_rand random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int part = 0; part < 10; ++part) text += parts[random() % parts.size()];
    for (const auto format : {ToolFormat::kHermes, ToolFormat::kLlama, ToolFormat::kMistral}) {
      const ToolCallReader::Options options = {format, kNames, /*parallel=*/i % 2 == 0};
      const Whole whole = Read(options, text, text.size()), bytes = Read(options, text, 1);
      EXPECT_EQ(whole.content, bytes.content) << text;
      EXPECT_EQ(whole.calls, bytes.calls) << text;
    }
  }
}

TEST(ToolCallReaderTest, ArgumentsStreamWhileTheyArrive) {
  ToolCallReader reader({ToolFormat::kHermes, kNames});
  EXPECT_THAT(reader.Push("<tool_call>\n{\"name\": \"get_time\", \"argu").calls, IsEmpty());
  const ToolCallText first = reader.Push("ments\": {\"zone\"");
  ASSERT_EQ(first.calls.size(), 1u);
  EXPECT_EQ(first.calls[0].name, "get_time");
  EXPECT_EQ(first.calls[0].arguments, "{\"zone\"");
  const ToolCallText second = reader.Push(": \"C");
  ASSERT_EQ(second.calls.size(), 1u);
  EXPECT_EQ(second.calls[0].name, "");
  EXPECT_EQ(second.calls[0].arguments, ": \"C");
}

TEST(ToolCallReaderTest, FurtherCallsAreDroppedIfTheyAreNotWanted) {
  const std::string one = "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>";
  const Whole whole =
      Read({.format = ToolFormat::kHermes, .names = kNames, .parallel = false}, one + one, 5);
  EXPECT_THAT(whole.calls, ElementsAre(Pair("get_time", "{}")));
  EXPECT_EQ(whole.content, "");
}

TEST(ToolFormatTest, TheChatTemplateShowsTheFormat) {
  EXPECT_EQ(ToolFormatOf("…<tool_call>…"), ToolFormat::kHermes);
  EXPECT_EQ(ToolFormatOf("…[TOOL_CALLS]…"), ToolFormat::kMistral);
  EXPECT_EQ(ToolFormatOf("…role == 'ipython'…"), ToolFormat::kLlama);
  EXPECT_EQ(ToolFormatOf(""), ToolFormat::kHermes);
  EXPECT_TRUE(absl::IsInvalidArgument(ParseToolFormat("xml").status()));
}

// ---- reasoning ----

ReasoningText ReadReasoning(ReasoningStart start, const std::string& text, size_t size) {
  ReasoningReader reader(start);
  ReasoningText whole;
  const auto add = [&](const ReasoningText& part) {
    whole.reasoning += part.reasoning;
    whole.rest += part.rest;
  };
  for (size_t at = 0; at < text.size(); at += size) add(reader.Push(text.substr(at, size)));
  add(reader.Finish());
  return whole;
}

TEST(ReasoningReaderTest, ThinkTagsEncloseTheReasoning) {
  struct Case {
    ReasoningStart start;
    std::string text, reasoning, rest;
  };
  const std::vector<Case> cases = {
      {ReasoningStart::kMayBegin, "<think>\nWell.\n\nYes.\n</think>\n\n4", "Well.\n\nYes.", "4"},
      {ReasoningStart::kMayBegin, "\n<think>a</think>b\n", "a", "b\n"},
      {ReasoningStart::kMayBegin, "No <think>tags</think>", "", "No <think>tags</think>"},
      {ReasoningStart::kMayBegin, "<thin", "", "<thin"},
      {ReasoningStart::kMayBegin, "", "", ""},
      {ReasoningStart::kMayBegin, "<think>cut\n", "cut", ""},
      {ReasoningStart::kMayBegin, "<think>cut </thi", "cut </thi", ""},
      {ReasoningStart::kMayBegin, "<think></think>x</think>", "", "x</think>"},
      {ReasoningStart::kHasBegun, "\nHm < 3.\n</think>\n\nok", "Hm < 3.", "ok"},
      {ReasoningStart::kHasBegun, "only this", "only this", ""},
      {ReasoningStart::kNone, "<think>a</think>b", "", "<think>a</think>b"},
  };
  for (const Case& one : cases) {
    for (size_t size = 1; size <= 9; ++size) {
      const ReasoningText read = ReadReasoning(one.start, one.text, size);
      EXPECT_EQ(read.reasoning, one.reasoning) << one.text << " by " << size;
      EXPECT_EQ(read.rest, one.rest) << one.text << " by " << size;
    }
  }
}

}  // namespace
}  // namespace bastion
