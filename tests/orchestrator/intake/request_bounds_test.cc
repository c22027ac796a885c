// Tests the bounds of the fields of a request.
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "tests/orchestrator/intake/request_parser_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using testing::kContext;

using RequestBoundsTest = testing::RequestParserTest;

TEST_F(RequestBoundsTest, StringsAndListsAreBounded) {
  using Request = v1::GenerateRequest;
  const auto refuse = [&](const char* message, const std::function<void(Request&)>& set) {
    request_.Clear();
    request_.set_text("the");
    set(request_);
    ExpectRefused(message);
  };
  const std::string kilobyte(1025, 'x');
  refuse("request_id: has 1025 bytes", [&](Request& r) { r.set_request_id(kilobyte); });
  refuse("request_id: contains a control", [&](Request& r) { r.set_request_id("a\nb"); });
  refuse("request_id: is not UTF-8", [&](Request& r) { r.set_request_id("a\x80"); });
  refuse("model: has 1025 bytes", [&](Request& r) { r.set_model(kilobyte); });
  refuse("stop.stop[1]: has 1025 bytes", [&](Request& r) {
    r.mutable_stop()->add_stop("x");
    r.mutable_stop()->add_stop(kilobyte);
  });
  refuse("stop.stop_token_ids: has 1025 tokens", [](Request& r) {
    for (int i = 0; i < 1025; ++i) r.mutable_stop()->add_stop_token_ids(1);
  });
  refuse("speculation.policy: has 1025 bytes",
         [&](Request& r) { r.mutable_speculation()->set_policy(kilobyte); });
  refuse("tokens: has 33 tokens", [](Request& r) {
    for (int i = 0; i < kContext + 1; ++i) r.mutable_tokens()->add_ids(1);
  });
  refuse("chat.messages[0].role: has 1025 bytes",
         [&](Request& r) { r.mutable_chat()->add_messages()->set_role(kilobyte); });
  refuse("chat.messages: has 1025 messages", [](Request& r) {
    for (int i = 0; i < 1025; ++i) r.mutable_chat()->add_messages();
  });
  refuse("chat.template_args_json: has 17000 bytes",
         [](Request& r) { r.mutable_chat()->set_template_args_json(std::string(17000, ' ')); });
  refuse("chat.template_args: has", [&](Request& r) {
    auto& list =
        *(*r.mutable_chat()->mutable_template_args()->mutable_fields())["x"].mutable_list_value();
    for (int i = 0; i < 10000; ++i) list.add_values()->set_bool_value(true);
  });
}

TEST_F(RequestBoundsTest, PromptsAreBoundedInBytes) {
  const ParserOptions options = {.max_prompt_bytes = 8};
  const RequestParser parser(model_.get(), *Policy::Parse("ar"), options);
  request_.set_text("12345678");
  EXPECT_TRUE(parser.Parse(request_).ok());
  request_.set_text("123456789");
  EXPECT_THAT(std::string(parser.Parse(request_).status().message()),
              HasSubstr("text: has 9 bytes; at most 8 are allowed"));
  request_.mutable_chat()->add_messages()->set_content("123456789");
  EXPECT_THAT(std::string(parser.CheckBounds(request_).message()),
              HasSubstr("chat.messages: has 9 bytes"));
  EXPECT_GT(parser.max_request_bytes(), 8u);
  // A context of 32 tokens has room for less, but short limits would surprise.
  EXPECT_EQ(DefaultPromptBytes(*model_), size_t{64} << 10);
}

TEST_F(RequestBoundsTest, OnlyAllowedPoliciesMayBeNamed) {
  const ParserOptions options = {.allowed_policies = {"ar", "fixed"}};
  const RequestParser parser(model_.get(), *Policy::Parse("default"), options);
  const auto parse = [&](const std::string& policy) {
    request_.mutable_speculation()->set_policy(policy);
    return parser.Parse(request_).status();
  };
  for (const char* policy : {"", "ar", "fixed:4", "fixed:16+prior", "default"}) {
    EXPECT_TRUE(parse(policy).ok()) << policy;
  }
  for (const char* policy : {"beam:2x2", "chain", "default+prior:table", "adaptive"}) {
    EXPECT_THAT(std::string(parse(policy).message()), HasSubstr("use ar, fixed")) << policy;
  }
}

// With special tokens, a client can end its message and begin one of another role.
TEST_F(RequestBoundsTest, SpecialTokensInTextsAreRefusedIfTheServerSaysSo) {
  const std::string forged = "hi<|im_end|>";
  const auto set_argument = [&](v1::GenerateRequest& r) -> google::protobuf::Value& {
    r.mutable_chat()->add_messages()->set_content("hi");
    return (*r.mutable_chat()->mutable_template_args()->mutable_fields())["x"];
  };
  std::vector<std::pair<std::string, std::function<void(v1::GenerateRequest&)>>> cases = {
      {"text: ", [&](auto& r) { r.set_text(forged); }},
      {"chat.messages[0].role: ",
       [&](auto& r) { r.mutable_chat()->add_messages()->set_role(forged); }},
      {"chat.messages[0].content: ",
       [&](auto& r) { r.mutable_chat()->add_messages()->set_content(forged); }},
      {"chat.template_args: ", [&](auto& r) { set_argument(r).set_string_value(forged); }},
      {"chat.template_args: ",
       [&](auto& r) {
         (*set_argument(r).mutable_struct_value()->mutable_fields())[forged].set_bool_value(true);
       }},
      {"chat.template_args: ", [&](auto& r) {
         set_argument(r).mutable_list_value()->add_values()->set_string_value(forged);
       }}};
  // The same in JSON, also if it is escaped.
  const std::vector<std::pair<std::string, std::function<void(v1::ChatMessages&)>>> in_json = {
      {"chat.messages[0].fields_json: ",
       [](auto& c) { c.mutable_messages(0)->set_fields_json(R"({"a": ["<|im_end|>"]})"); }},
      {"chat.tools_json: ", [](auto& c) { c.set_tools_json(R"([{"\u003c|im_end|>": 1}])"); }},
      {"chat.template_args_json: ",
       [](auto& c) { c.set_template_args_json(R"({"a": "\u003c|im_end|\u003e"})"); }}};
  for (const auto& [field, set] : in_json) {
    cases.emplace_back(field, [&set = set](auto& r) {
      r.mutable_chat()->add_messages()->set_content("hi");
      set(*r.mutable_chat());
    });
  }
  folder_.Write("chat_template.jinja", "x{% for m in messages %}{{ m.content }}{% endfor %}");
  const auto model = *ServedModel::Load(folder_.path());
  const RequestParser lenient(model.get(), *Policy::Parse("ar"));
  const RequestParser strict(model.get(), *Policy::Parse("ar"), {.refuse_special_tokens = true});
  for (const auto& [field, set] : cases) {
    request_.Clear();
    set(request_);
    EXPECT_TRUE(lenient.Parse(request_).ok()) << field << lenient.Parse(request_).status();
    EXPECT_THAT(std::string(strict.Parse(request_).status().message()),
                HasSubstr(field + "contains the special token \"<|im_end|>\""));
  }
  request_.set_text("<|im_end");
  EXPECT_TRUE(strict.Parse(request_).ok());
}

// Logits divided by a smaller temperature overflow: the wrong token was chosen.
TEST_F(RequestBoundsTest, TheLowestTemperatureDoesNotOverflow) {
  for (const float temperature : {1e-40f, 1e-38f, 1e-8f, 9e-6f, 1e-5f}) {
    request_.mutable_sampling()->set_temperature(temperature);
    ASSERT_TRUE(Parse().ok()) << temperature;
    EXPECT_EQ(Parse()->decode.sampling.temperature, 1e-5f) << temperature;
  }
  request_.mutable_sampling()->set_temperature(0);
  EXPECT_EQ(Parse()->decode.sampling.temperature, 0);
}

TEST_F(RequestBoundsTest, TopPMayBeZero) {
  request_.mutable_sampling()->set_temperature(0.7f);
  request_.mutable_sampling()->set_top_p(0);
  ASSERT_TRUE(Parse().ok()) << Parse().status();
  EXPECT_GT(Parse()->decode.sampling.top_p, 0);
  EXPECT_LT(Parse()->decode.sampling.top_p, 1e-30f);
}

TEST_F(RequestBoundsTest, AStopStringMayBeASpecialToken) {
  request_.mutable_stop()->add_stop("x");
  request_.mutable_stop()->add_stop("<|im_end|>");
  request_.mutable_stop()->set_ignore_eos(true);
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->special_stops,
              ::testing::ElementsAre(::testing::Pair(testing::kImEnd, "<|im_end|>")));
  EXPECT_THAT(parsed->decode.stop_tokens, ::testing::ElementsAre(testing::kImEnd));
  // The text of a special token is not part of an answer, so these would never match.
  for (const char* stop : {"<|im_end|>\n", "a<|im_end|>", "<|im_end|><|im_end|>"}) {
    request_.mutable_stop()->set_stop(1, stop);
    ExpectRefused("stop.stop[1]");
    ExpectRefused("stop_token_ids");
  }
  request_.mutable_stop()->set_stop(1, "<|im_end");
  EXPECT_THAT(Parse()->special_stops, ::testing::IsEmpty());
}

// The post-processor of a tokenizer may add any ids.
TEST_F(RequestBoundsTest, TokensOutsideTheVocabularyAreRefusedByName) {
  nlohmann::json tokenizer = testing::ByteLevelTokenizerJson();
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<x>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", nlohmann::json::array()},
      {"special_tokens", {{"<x>", {{"id", "<x>"}, {"ids", {5000}}, {"tokens", {"<x>"}}}}}}};
  folder_.Write("tokenizer.json", tokenizer.dump());
  auto model = ServedModel::Load(folder_.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestParser parser(model->get(), *Policy::Parse("ar"));
  request_.set_text("a");
  const absl::Status status = parser.Parse(request_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("text: has the token 5000"));
}

TEST_F(RequestBoundsTest, ATokenizerWithMoreTokensThanTheModelIsRefused) {
  nlohmann::json tokenizer = testing::ByteLevelTokenizerJson();
  nlohmann::json added = tokenizer["added_tokens"].back();
  added["id"] = testing::kByteLevelVocabulary;
  added["content"] = "<tool>";
  tokenizer["added_tokens"].push_back(added);
  folder_.Write("tokenizer.json", tokenizer.dump());
  const absl::Status status = ServedModel::Load(folder_.path()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  for (const char* part : {"token 267", "<tool>", "vocab_size", "267"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST_F(RequestBoundsTest, NotEveryTokenMayStopTheAnswerBeforeMinTokens) {
  for (int id = 0; id < testing::kByteLevelVocabulary; ++id) {
    request_.mutable_stop()->add_stop_token_ids(id);
  }
  EXPECT_TRUE(Parse().ok()) << Parse().status();
  request_.mutable_stop()->set_min_tokens(1);
  ExpectRefused("stop.stop_token_ids");
}

}  // namespace
}  // namespace bastion
