#include "orchestrator/openai/openai_request.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
using ::testing::UnorderedElementsAre;

TEST(OpenAiRequestTest, SamplingParametersKeepTheirValues) {
  const OpenAiRequest request = Completion({{"temperature", 0.5},
                                            {"top_p", 0.25},
                                            {"top_k", 7},
                                            {"min_p", 0.125},
                                            {"repetition_penalty", 1.5},
                                            {"presence_penalty", -1},
                                            {"frequency_penalty", 2},
                                            {"seed", 12},
                                            {"logit_bias", {{"3", -100}, {"5", 1.5}}}});
  const v1::SamplingParams& sampling = request.generate.sampling();
  EXPECT_EQ(sampling.temperature(), 0.5F);
  EXPECT_EQ(sampling.top_p(), 0.25F);
  EXPECT_EQ(sampling.top_k(), 7);
  EXPECT_EQ(sampling.min_p(), 0.125F);
  EXPECT_EQ(sampling.repetition_penalty(), 1.5F);
  EXPECT_EQ(sampling.presence_penalty(), -1);
  EXPECT_EQ(sampling.frequency_penalty(), 2);
  EXPECT_EQ(sampling.seed(), 12u);
  EXPECT_THAT(sampling.logit_bias(),
              UnorderedElementsAre(::testing::Pair(3, -100), ::testing::Pair(5, 1.5F)));
}

TEST(OpenAiRequestTest, DefaultsAreThoseOfOpenAisApi) {
  EXPECT_EQ(Completion({}).generate.sampling().temperature(), 1);
  EXPECT_EQ(Completion({}).generate.stop().max_tokens(), 16u);
  EXPECT_FALSE(Completion({}).generate.sampling().has_seed());
  EXPECT_EQ(Chat({}).generate.sampling().temperature(), 1);
  EXPECT_FALSE(Chat({}).generate.stop().has_max_tokens());
  EXPECT_FALSE(Chat({}).stream);
  EXPECT_EQ(Completion({{"temperature", 0}}).generate.sampling().temperature(), 0);
}

TEST(OpenAiRequestTest, NullCountsAsAbsent) {
  const OpenAiRequest request =
      Completion({{"temperature", nullptr}, {"stop", nullptr}, {"suffix", nullptr}});
  EXPECT_EQ(request.generate.sampling().temperature(), 1);
  EXPECT_EQ(request.generate.stop().stop_size(), 0);
}

TEST(OpenAiRequestTest, TopKOfMinusOneIsOff) {
  EXPECT_EQ(Completion({{"top_k", -1}}).generate.sampling().top_k(), 0);
}

TEST(OpenAiRequestTest, ANegativeSeedIsASeed) {
  EXPECT_EQ(Completion({{"seed", -1}}).generate.sampling().seed(), ~uint64_t{0});
}

TEST(OpenAiRequestTest, StopConditionsKeepTheirValues) {
  const OpenAiRequest request = Completion({{"max_tokens", 9},
                                            {"min_tokens", 2},
                                            {"stop", {"x", "yz"}},
                                            {"stop_token_ids", {4, 5}},
                                            {"ignore_eos", true}});
  const v1::StopConditions& stop = request.generate.stop();
  EXPECT_EQ(stop.max_tokens(), 9u);
  EXPECT_EQ(stop.min_tokens(), 2u);
  EXPECT_THAT(stop.stop(), ElementsAre("x", "yz"));
  EXPECT_THAT(stop.stop_token_ids(), ElementsAre(4, 5));
  EXPECT_TRUE(stop.ignore_eos());
  EXPECT_THAT(Completion({{"stop", "x"}}).generate.stop().stop(), ElementsAre("x"));
}

TEST(OpenAiRequestTest, MaxCompletionTokensHasPrecedence) {
  EXPECT_EQ(Chat({{"max_tokens", 3}}).generate.stop().max_tokens(), 3u);
  const OpenAiRequest both = Chat({{"max_completion_tokens", 5}, {"max_tokens", 3}});
  EXPECT_EQ(both.generate.stop().max_tokens(), 5u);
}

TEST(OpenAiRequestTest, PromptsAreTextsOrTokens) {
  EXPECT_EQ(Completion({{"prompt", "text"}}).generate.text(), "text");
  EXPECT_EQ(Completion({{"prompt", {"text"}}}).generate.text(), "text");
  EXPECT_THAT(Completion({{"prompt", {1, 2}}}).generate.tokens().ids(), ElementsAre(1, 2));
  const json nested = json::array({json::array({1, 2})});
  EXPECT_THAT(Completion({{"prompt", nested}}).generate.tokens().ids(), ElementsAre(1, 2));
  const auto several = Completion({{"prompt", json::array({"a", json::array({1, 2}), "c"})}});
  EXPECT_EQ(several.generate.text(), "a");
  ASSERT_EQ(several.other_prompts.size(), 2u);
  EXPECT_THAT(several.other_prompts[0].tokens().ids(), ElementsAre(1, 2));
  EXPECT_EQ(several.other_prompts[1].text(), "c");
}

TEST(OpenAiRequestTest, MessagesKeepRolesAndTexts) {
  const OpenAiRequest request = Chat(
      {{"messages",
        {{{"role", "developer"}, {"content", "rules"}},
         {{"role", "user"},
          {"content", {{{"type", "text"}, {"text", "one "}}, {{"type", "text"}, {"text", "two"}}}}},
         {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}}}},
       {"chat_template_kwargs", {{"enable_thinking", false}}}});
  const v1::ChatMessages& chat = request.generate.chat();
  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(0).content(), "rules");
  EXPECT_EQ(chat.messages(1).content(), "one two");
  EXPECT_EQ(chat.messages(2).content(), "");
  EXPECT_EQ(chat.template_args_json(), R"({"enable_thinking":false})");
}

// A protobuf Struct has neither order nor integers, so identical requests had different prompts.
TEST(OpenAiRequestTest, TemplateArgumentsKeepTheirOrderIntegersAndFloats) {
  const std::string arguments =
      R"({"z":12345678901234567,"a":2.0,"m":{"y":[1.5,-3,true,null],"b":"é"}})";
  const auto request = ParseOpenAiRequest(
      OpenAiKind::kChat, absl::StrCat(R"({"messages": [{"role": "user", "content": "x"}], )",
                                      R"("chat_template_kwargs": )", arguments, "}"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generate.chat().template_args_json(), arguments);
}

const json kWeatherTool = {{"type", "function"},
                           {"function",
                            {{"name", "get_weather"},
                             {"description", "Weather."},
                             {"parameters", {{"type", "object"}}},
                             {"strict", true}}}};

TEST(OpenAiRequestTest, ToolsAndTheirMessagesReachTheTemplate) {
  const OpenAiRequest request = Chat(
      {{"messages",
        {{{"role", "user"}, {"content", "x"}},
         {{"role", "assistant"},
          {"content", nullptr},
          {"tool_calls",
           {{{"id", "c1"},
             {"type", "function"},
             {"function", {{"name", "get_weather"}, {"arguments", R"({"b": 1, "a": 2.0})"}}}}}}},
         {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "rain"}}}},
       {"tools", {kWeatherTool}},
       {"parallel_tool_calls", false}});
  const v1::ChatMessages& chat = request.generate.chat();
  EXPECT_EQ(json::parse(chat.tools_json()), json::array({kWeatherTool}));
  EXPECT_THAT(chat.messages(1).fields_json(), HasSubstr(R"("arguments":{"b":1,"a":2.0})"));
  EXPECT_EQ(chat.messages(2).fields_json(), R"({"tool_call_id":"c1"})");
  ASSERT_EQ(request.tools.size(), 1u);
  EXPECT_EQ(request.tools[0].name, "get_weather");
  EXPECT_EQ(request.tool_choice, ToolChoice::kAuto);
  EXPECT_FALSE(request.parallel_tool_calls);
}

TEST(OpenAiRequestTest, TheChoiceOfToolsDecidesWhatTheAnswerMayCall) {
  json other = kWeatherTool;
  other["function"]["name"] = "get_time";
  const auto with = [&](const json& choice) {
    return Chat({{"messages", {{{"role", "user"}, {"content", "x"}}}},
                 {"tools", {kWeatherTool, other}},
                 {"tool_choice", choice}});
  };
  EXPECT_EQ(with("auto").tools.size(), 2u);
  EXPECT_EQ(with("required").tool_choice, ToolChoice::kRequired);
  EXPECT_TRUE(with("none").tools.empty());
  EXPECT_EQ(with("none").generate.chat().tools_json(), "");
  const OpenAiRequest named = with({{"type", "function"}, {"function", {{"name", "get_time"}}}});
  EXPECT_EQ(named.tool_choice, ToolChoice::kRequired);
  ASSERT_EQ(named.tools.size(), 1u);
  EXPECT_EQ(named.tools[0].name, "get_time");
  EXPECT_NE(named.generate.chat().tools_json(), "");
}

TEST(OpenAiRequestTest, LogprobsAreAskedForInBothWays) {
  EXPECT_EQ(Completion({{"logprobs", 3}}).generate.output().logprobs(), 3u);
  EXPECT_FALSE(Completion({}).generate.output().has_logprobs());
  EXPECT_EQ(Chat({{"logprobs", true}, {"top_logprobs", 4}}).generate.output().logprobs(), 4u);
  EXPECT_TRUE(Chat({{"logprobs", true}}).generate.output().has_logprobs());
  EXPECT_FALSE(Chat({{"logprobs", false}}).generate.output().has_logprobs());
}

TEST(OpenAiRequestTest, TheFormOfTheAnswerIsKept) {
  const OpenAiRequest request = Chat({{"n", 3},
                                      {"stream", true},
                                      {"stream_options", {{"include_usage", true}}},
                                      {"user", "ann"},
                                      {"metadata", {{"k", "v"}}},
                                      {"cache_salt", "s"},
                                      {"speculation", {{"policy", "ar"}, {"max_tree_nodes", 2}}}});
  EXPECT_EQ(request.generate.n(), 3u);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.stream_usage);
  EXPECT_EQ(request.user, "ann");
  EXPECT_EQ(request.generate.cache_salt(), "s");
  EXPECT_EQ(request.generate.speculation().policy(), "ar");
  EXPECT_EQ(request.generate.speculation().max_tree_nodes(), 2u);
}

TEST(OpenAiRequestTest, ResponseFormatsAreConstraints) {
  const auto constraint = [](const json& format) {
    return Chat({{"response_format", format}}).generate.constraint();
  };
  EXPECT_EQ(constraint({{"type", "text"}}).language_case(), v1::Constraint::LANGUAGE_NOT_SET);
  EXPECT_EQ(constraint({{"type", "json_object"}}).json_schema(), R"({"type": "object"})");
  const json schema = {{"type", "integer"}};
  EXPECT_EQ(constraint({{"type", "json_schema"},
                        {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", schema}}}})
                .json_schema(),
            schema.dump());
}

TEST(OpenAiRequestTest, StructuredOutputsAreConstraints) {
  const auto constraint = [](const json& outputs) {
    return Completion({{"structured_outputs", outputs}}).generate.constraint();
  };
  EXPECT_EQ(constraint({{"json", {{"type", "null"}}}}).json_schema(), R"({"type":"null"})");
  EXPECT_EQ(constraint({{"json", "true"}}).json_schema(), "true");
  EXPECT_EQ(constraint({{"regex", "a+"}}).regex(), "a+");
  EXPECT_EQ(constraint({{"grammar", "start: \"a\""}}).grammar(), "start: \"a\"");
  EXPECT_EQ(constraint({{"choice", {"yes", "n\"o"}}}).grammar(), R"(start: "yes" | "n\"o")");
}

TEST(OpenAiRequestTest, MalformedCompletionsAreRefusedByName) {
  const auto refused = [](const std::string& field) {
    return RefusedParameter(OpenAiKind::kCompletion,
                            absl::StrCat(R"({"prompt": "a", )", field, "}"));
  };
  EXPECT_EQ(refused(R"("temperature": "hot")"), "temperature");
  EXPECT_EQ(refused(R"("temperature": 1e300)"), "temperature");
  EXPECT_EQ(refused(R"("max_tokens": -1)"), "max_tokens");
  EXPECT_EQ(refused(R"("max_tokens": 1.5)"), "max_tokens");
  EXPECT_EQ(refused(R"("max_tokens": 18446744073709551615)"), "max_tokens");
  EXPECT_EQ(refused(R"("n": "2")"), "n");
  EXPECT_EQ(refused(R"("seed": 0.5)"), "seed");
  EXPECT_EQ(refused(R"("stop": 5)"), "stop");
  EXPECT_EQ(refused(R"("stop": ["x", 5])"), "stop[1]");
  EXPECT_EQ(refused(R"("stop_token_ids": [-1])"), "stop_token_ids[0]");
  EXPECT_EQ(refused(R"("stream": 1)"), "stream");
  EXPECT_EQ(refused(R"("stream_options": {"include_usage": true})"), "stream_options");
  EXPECT_EQ(refused(R"("stream_options": {"x": true})"), "stream_options.x");
  EXPECT_EQ(refused(R"("logit_bias": {"dog": 1})"), "logit_bias.dog");
  EXPECT_EQ(refused(R"("logit_bias": [1])"), "logit_bias");
  EXPECT_EQ(refused(R"("echo": true)"), "echo");
  EXPECT_EQ(refused(R"("suffix": "end")"), "suffix");
  EXPECT_EQ(refused(R"("messages": [])"), "messages");
  EXPECT_EQ(refused(R"("response_format": {"type": "xml"})"), "response_format");
  EXPECT_EQ(refused(R"("response_format": {"type": "json_schema"})"), "response_format");
  EXPECT_EQ(refused(R"("response_format": 5)"), "response_format");
  EXPECT_EQ(refused(R"("structured_outputs": {"choice": []})"), "structured_outputs.choice");
  EXPECT_EQ(refused(R"("structured_outputs": {"xml": "a"})"), "structured_outputs.xml");
  EXPECT_EQ(refused(R"("structured_outputs": {"json": "{}", "regex": "a"})"), "structured_outputs");
  EXPECT_EQ(refused(R"("speculation": {"mode": 1})"), "speculation.mode");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, "{}"), "prompt");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, R"({"prompt": []})"), "prompt");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, R"({"prompt": ["a", 1]})"), "prompt[1]");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, R"({"prompt": ["a", []]})"), "prompt[1]");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, R"({"prompt": ["a", "b"], "n": 65})"),
            "prompt");
  const json many = {{"prompt", std::vector<std::string>(129, "a")}};
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, many.dump()), "prompt");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, R"({"prompt": [1, "b"]})"), "prompt[1]");
  EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, R"({"prompt": {"a": 1}})"), "prompt");
}

TEST(OpenAiRequestTest, MalformedChatsAreRefusedByName) {
  const auto refused = [](const std::string& body) {
    return RefusedParameter(OpenAiKind::kChat, body);
  };
  EXPECT_EQ(refused("{}"), "messages");
  EXPECT_EQ(refused(R"({"messages": []})"), "messages");
  EXPECT_EQ(refused(R"({"messages": "a"})"), "messages");
  EXPECT_EQ(refused(R"({"messages": [{"content": "a"}]})"), "messages[0]");
  EXPECT_EQ(refused(R"({"messages": [{"role": 1}]})"), "messages[0].role");
  EXPECT_EQ(refused(R"({"messages": [{"role": "user", "content": 1}]})"), "messages[0].content");
  EXPECT_EQ(refused(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(refused(R"({"messages": [{"role": "tool", "tool_call_id": 1}]})"),
            "messages[0].tool_call_id");
  EXPECT_EQ(refused(R"({"messages": [{"role": "assistant", "tool_calls": [{"type": "x"}]}]})"),
            "messages[0].tool_calls[0]");
  EXPECT_EQ(refused(R"({"messages": [{"role": "assistant", "audio": {"id": "1"}}]})"),
            "messages[0].audio");
  const auto with = [&](const std::string& field) {
    return refused(
        absl::StrCat(R"({"messages": [{"role": "user", "content": "a"}], )", field, "}"));
  };
  EXPECT_EQ(with(R"("tools": [{"type": "function"}])"), "tools[0]");
  EXPECT_EQ(with(R"("tools": [{"type": "custom", "function": {"name": "f"}}])"), "tools[0]");
  const std::string tool = R"({"type": "function", "function": {"name": "f"}})";
  EXPECT_EQ(with(R"("tools": [{"type": "function", "function": {"name": "a b"}}])"),
            "tools[0].function.name");
  EXPECT_EQ(with(R"("tools": [{"type": "function", "function": {}}])"), "tools[0].function");
  EXPECT_EQ(with(absl::StrCat(R"("tools": [)", tool, ", ", tool, "]")), "tools[1].function");
  EXPECT_EQ(with(R"("tool_choice": "required")"), "tool_choice");
  EXPECT_EQ(with(R"("tool_choice": "any")"), "tool_choice");
  EXPECT_EQ(with(absl::StrCat(R"("tools": [)", tool, R"(], "tool_choice": {"type": "function", )",
                              R"("function": {"name": "g"}})")),
            "tool_choice");
  EXPECT_EQ(with(R"("top_logprobs": 2)"), "top_logprobs");
  EXPECT_EQ(with(R"("logprobs": 2)"), "logprobs");
  EXPECT_EQ(with(R"("chat_template_kwargs": 2)"), "chat_template_kwargs");
  EXPECT_EQ(with(R"("prompt": "a")"), "prompt");
}

TEST(OpenAiRequestTest, BodiesThatAreNotJsonObjectsAreRefused) {
  for (const char* body :
       {"", "{", "[]", "null", R"({"prompt": "a"} x)", "{\"prompt\": \"\xFF\"}"}) {
    EXPECT_EQ(RefusedParameter(OpenAiKind::kCompletion, body), "");
  }
}

TEST(OpenAiRequestTest, DeepBodiesAreRefused) {
  const std::string deep = absl::StrCat(R"({"metadata": )", std::string(100000, '['));
  const absl::Status status = ParseOpenAiRequest(OpenAiKind::kChat, deep).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("levels"));
}

TEST(OpenAiRequestTest, WideObjectsAreRefused) {
  std::string wide = R"({"metadata": {"a": 0)";
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&wide, ",\"", i, "\": 0");
  const absl::Status status = ParseOpenAiRequest(OpenAiKind::kChat, wide + "}}").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("names"));
}

TEST(OpenAiRequestTest, TheOrderOfASchemaIsKept) {
  const auto request = ParseOpenAiRequest(OpenAiKind::kCompletion, R"({"prompt": "a",
      "structured_outputs": {"json": {"properties": {"z": {}, "a": {}}}}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generate.constraint().json_schema(), R"({"properties":{"z":{},"a":{}}})");
}

TEST(OpenAiRequestTest, LongNamesOfParametersAreCut) {
  const std::string body = absl::StrCat("{\"", std::string(1000, 'x'), "\": 1}");
  EXPECT_LT(RefusedParameter(OpenAiKind::kChat, body).size(), 100u);
}

TEST(OpenAiRequestTest, ErrorsOfThePublicApiGetTheNamesOfThisApi) {
  const auto chat = [](const char* field) {
    OpenAiRequest request;
    request.kind = OpenAiKind::kChat;
    return OpenAiField(request, field);
  };
  const auto completion = [](const char* field) { return OpenAiField(OpenAiRequest(), field); };
  EXPECT_EQ(completion("sampling.top_p"), "top_p");
  EXPECT_EQ(completion("stop.stop[0]"), "stop[0]");
  EXPECT_EQ(completion("stop.max_tokens"), "max_tokens");
  EXPECT_EQ(completion("text"), "prompt");
  EXPECT_EQ(completion("tokens"), "prompt");
  EXPECT_EQ(completion("output.logprobs"), "logprobs");
  EXPECT_EQ(chat("output.logprobs"), "top_logprobs");
  EXPECT_EQ(chat("chat"), "messages");
  EXPECT_EQ(chat("prompt"), "messages");
  EXPECT_EQ(chat("chat.messages[2].role"), "messages[2].role");
  EXPECT_EQ(chat("chat.template_args_json"), "chat_template_kwargs");
  EXPECT_EQ(chat("chat.messages[2].fields_json"), "messages[2]");
  EXPECT_EQ(chat("chat.tools_json"), "tools");
  EXPECT_EQ(chat("n"), "n");
  EXPECT_EQ(chat("constraint.json_schema"), "response_format");
  const OpenAiRequest outputs = Completion({{"structured_outputs", {{"regex", "a"}}}});
  EXPECT_EQ(OpenAiField(outputs, "constraint.regex"), "structured_outputs");
}

}  // namespace
}  // namespace bastion
