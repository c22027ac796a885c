// Bodies as clients of OpenAI's API send them.
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/schedule/error_details.h"
#include "tests/orchestrator/openai/openai_requests.h"

namespace bastion {
namespace {

using nlohmann::json;
using testing::Chat;
using testing::Completion;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RefusedParameter;

TEST(OpenAiFieldsTest, NumbersWithoutDecimalsAreIntegers) {
  EXPECT_EQ(Completion({{"max_tokens", 8.0}}).generate.stop().max_tokens(), 8u);
  EXPECT_EQ(Completion({{"seed", 42.0}}).generate.sampling().seed(), 42u);
  EXPECT_EQ(Completion({{"seed", -1.0}}).generate.sampling().seed(), ~uint64_t{0});
  EXPECT_EQ(Completion({{"top_k", 3.0}}).generate.sampling().top_k(), 3);
  EXPECT_EQ(Completion({{"n", 2.0}}).generate.n(), 2u);
  EXPECT_THAT(Completion({{"prompt", {1.0, 2}}}).generate.tokens().ids(), ElementsAre(1, 2));
  for (const char* seed : {"1e300", "-1e19", "9223372036854775808.0", "\"1\"", "true"}) {
    EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion,
                               absl::StrCat(R"({"prompt": "a", "seed": )", seed, "}")),
              "seed");
  }
}

// Each of these has the value that the API has without it.
TEST(OpenAiFieldsTest, ParametersThatChangeNothingAreAccepted) {
  const std::string completion = Completion({}).generate.SerializeAsString();
  for (const json& fields : {json{{"best_of", 1}}, json{{"suffix", ""}}, json{{"echo", false}}}) {
    EXPECT_EQ(Completion(fields).generate.SerializeAsString(), completion) << fields;
  }
  EXPECT_EQ(Completion({{"n", 3}, {"best_of", 3}}).generate.n(), 3u);
  const std::string chat = Chat({}).generate.SerializeAsString();
  for (const json& fields :
       {json{{"tool_choice", "none"}}, json{{"tool_choice", "auto"}},
        json{{"tools", json::array()}}, json{{"function_call", "none"}},
        json{{"functions", json::array()}}, json{{"modalities", {"text"}}},
        json{{"verbosity", "medium"}}, json{{"logprobs", false}, {"top_logprobs", 0}},
        json{{"prediction", {{"type", "content"}, {"content", "a"}}}},
        json{{"prompt_cache_retention", "24h"}}}) {
    EXPECT_EQ(Chat(fields).generate.SerializeAsString(), chat) << fields;
  }
  // As a client sends an answer back.
  const OpenAiRequest history = Chat({{"messages",
                                       {{{"role", "user"}, {"content", "a"}, {"name", "bob"}},
                                        {{"role", "assistant"},
                                         {"content", "b"},
                                         {"refusal", nullptr},
                                         {"annotations", json::array()},
                                         {"audio", nullptr},
                                         {"function_call", nullptr},
                                         {"tool_calls", nullptr}}}}});
  EXPECT_EQ(history.generate.chat().messages_size(), 2);
}

TEST(OpenAiFieldsTest, TheSameParametersAreRefusedIfTheyWouldChangeTheAnswer) {
  const auto completion = [](const std::string& field) {
    return RefusedParameter(OpenAiKind::kCompletion,
                            absl::StrCat(R"({"prompt": "a", )", field, "}"));
  };
  EXPECT_EQ(completion(R"("best_of": 2)"), "best_of");
  EXPECT_EQ(completion(R"("n": 2, "best_of": 1)"), "best_of");
  const auto chat = [](const std::string& field) {
    return RefusedParameter(
        OpenAiKind::kChat,
        absl::StrCat(R"({"messages": [{"role": "user", "content": "a"}], )", field, "}"));
  };
  EXPECT_EQ(chat(R"("tool_choice": "required")"), "tool_choice");
  EXPECT_EQ(chat(R"("modalities": ["text", "audio"])"), "modalities");
  EXPECT_EQ(chat(R"("verbosity": "low")"), "verbosity");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kChat,
                             R"({"messages": [{"role": "user", "content": "a", "name": 1}]})"),
            "messages[0].name");
}

// DEL is the only character that JSON does not escape and Lark does not take.
TEST(OpenAiFieldsTest, AChoiceMayHaveAnyCharacter) {
  const OpenAiRequest request = Completion({{"structured_outputs",
                                             {{"choice",
                                               {"a\x7F"
                                                "b\n"}}}}});
  EXPECT_EQ(request.generate.constraint().grammar(), R"(start: "a\u007fb\n")");
}

struct BadBody {
  const char* body;
  const char* complaint;
};

TEST(OpenAiFieldsTest, ErrorsOfJsonHaveAPlaceAndAReason) {
  for (const auto& [body, complaint] : std::initializer_list<BadBody>{
           {R"({"prompt": "emoji \ud83d", "n": 1})", "line 1, column 25: a surrogate without"},
           {"{\n\"prompt\": \"x\",\n \"temperature\": 1e999}",
            "line 3, column 21: the number 1e999 is out of range"},
           {R"({"prompt": "x",})", "line 1, column 16: unexpected '}'"},
           {R"({"temperature": NaN})", "line 1, column 17: "},
           {"{\"prompt\": \"caf\xE9\"}", "line 1, column 17: invalid string: ill-formed UTF-8"},
           {"\xFF\xFE{", "line 1, column 1: "},
           {"", "line 1, column 1: unexpected end of input"},
           {"{} {}", "line 1, column 4: "},
           {"{\n\"a\": \"\n\"}", "line 2, column 7: "},
           {"{\n", "line 2, column 1: unexpected end of input"},
           {R"({"surrogate" 1})", "unexpected number literal"},
           {"[1]", "must be a JSON object, but it is of type array"},
           {"12", "must be a JSON object, but it is of type number"}}) {
    const absl::Status status = ParseOpenAiRequest(OpenAiKind::kCompletion, body).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << body;
    EXPECT_TRUE(IsForClient(status)) << body;
    EXPECT_THAT(std::string(status.message()), HasSubstr(complaint)) << body;
  }
  const std::string long_token = absl::StrCat("{\"a\": ", std::string(10000, '1'), "e9999}");
  const absl::Status status = ParseOpenAiRequest(OpenAiKind::kCompletion, long_token).status();
  EXPECT_LT(status.message().size(), 400u);
}

}  // namespace
}  // namespace bastion
