#include "orchestrator/intake/request_parser.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/intake/request_parser_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kContext;
using testing::kNodeCap;
using testing::RequestParserTest;
using ::testing::UnorderedElementsAre;

TEST_F(RequestParserTest, UnsetFieldsGetTheirDefaults) {
  request_.set_request_id("r1");
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->request_id, "r1");
  EXPECT_EQ(*model_->tokenizer.Encode("the cat", true), parsed->decode.prompt);
  EXPECT_EQ(parsed->decode.sampling.temperature, 0);
  EXPECT_EQ(parsed->decode.max_tokens, kContext - static_cast<int>(parsed->decode.prompt.size()));
  EXPECT_THAT(parsed->decode.stop_tokens, UnorderedElementsAre(testing::kEndOfText));
  EXPECT_EQ(parsed->decode.max_nodes, std::nullopt);
  EXPECT_EQ(parsed->decode.node_cap, kNodeCap);
  EXPECT_EQ(parsed->decode.weight, 1);
  EXPECT_EQ(parsed->decode.latency_target, std::nullopt);
  EXPECT_TRUE(parsed->default_max_tokens);
  EXPECT_EQ(parsed->policy.text(), "fixed:16");
}

TEST_F(RequestParserTest, ParsesEveryField) {
  SetTokens({1, 2, 3});
  request_.mutable_sampling()->set_temperature(0.5f);
  request_.mutable_sampling()->set_seed(99);
  request_.mutable_stop()->set_max_tokens(7);
  request_.mutable_stop()->add_stop_token_ids(5);
  request_.mutable_stop()->set_ignore_eos(true);
  request_.mutable_speculation()->set_policy("beam:2x3");
  request_.mutable_speculation()->set_max_tree_nodes(12);
  request_.set_model(model_->name);
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->decode.prompt, ElementsAre(1, 2, 3));
  EXPECT_EQ(static_cast<const ChoiceParams&>(parsed->decode.sampling), (ChoiceParams{0.5f, 99}));
  EXPECT_EQ(parsed->decode.max_tokens, 7);
  EXPECT_THAT(parsed->decode.stop_tokens, UnorderedElementsAre(5));
  EXPECT_EQ(parsed->policy.text(), "beam:2x3");
  EXPECT_EQ(parsed->decode.max_nodes, 12);
}

TEST_F(RequestParserTest, RefusesEmptyPrompts) {
  request_.set_text("");
  ExpectRefused("prompt");
  SetTokens({});
  request_.mutable_tokens();
  ExpectRefused("prompt");
  request_.clear_prompt();
  ExpectRefused("prompt");
}

TEST_F(RequestParserTest, RefusesAPromptThatFillsTheContext) {
  SetTokens(std::vector<TokenId>(kContext, 1));
  ExpectRefused("context of 32");
  SetTokens(std::vector<TokenId>(kContext - 1, 1));
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->decode.max_tokens, 1);
}

TEST_F(RequestParserTest, RefusesPromptTokensOutsideTheVocabulary) {
  for (const TokenId id : {-1, testing::kByteLevelVocabulary}) {
    SetTokens({1, id});
    ExpectRefused("tokens");
  }
}

TEST_F(RequestParserTest, RefusesInvalidUtf8) {
  request_.set_text("caf\xe9");
  EXPECT_TRUE(absl::IsInvalidArgument(Parse().status())) << Parse().status();
}

TEST_F(RequestParserTest, RefusesChatsIfTheModelHasNoTemplate) {
  v1::ChatMessage& message = *request_.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("hi");
  ExpectRefused("chat");
}

TEST_F(RequestParserTest, AnUnknownModelIsNotFound) {
  request_.set_model("gpt-5");
  const absl::Status status = Parse().status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(model_->name));
}

TEST_F(RequestParserTest, MaxTokensMustBePositiveAndIsLimitedByTheContext) {
  request_.mutable_stop()->set_max_tokens(0);
  ExpectRefused("stop.max_tokens");
  request_.mutable_stop()->set_max_tokens(std::numeric_limits<uint32_t>::max());
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->decode.max_tokens, kContext - static_cast<int>(parsed->decode.prompt.size()));
}

TEST_F(RequestParserTest, RefusesTemperaturesOutOfRange) {
  for (const float temperature : {-0.5f, 1000.0f, std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN()}) {
    request_.mutable_sampling()->set_temperature(temperature);
    ExpectRefused("sampling.temperature");
  }
}

TEST_F(RequestParserTest, ChoosesARandomSeedIfNoneIsSet) {
  const uint64_t first = Parse()->decode.sampling.seed, second = Parse()->decode.sampling.seed;
  EXPECT_NE(first, second);
}

TEST_F(RequestParserTest, ErrorsNameTheSamplingFieldThatIsOutOfRange) {
  using Sampling = v1::SamplingParams;
  const auto refuse = [&](const char* field, const std::function<void(Sampling&)>& set) {
    request_.mutable_sampling()->Clear();
    set(*request_.mutable_sampling());
    ExpectRefused(field);
  };
  for (const float bad : {-0.1f, 101.0f, NAN, INFINITY}) {
    refuse("sampling.temperature", [&](Sampling& s) { s.set_temperature(bad); });
    refuse("sampling.min_p", [&](Sampling& s) { s.set_min_p(bad); });
    refuse("sampling.top_p", [&](Sampling& s) { s.set_top_p(bad); });
    refuse("sampling.repetition_penalty", [&](Sampling& s) { s.set_repetition_penalty(bad); });
  }
  for (const float bad : {-2.5f, 2.5f, NAN}) {
    refuse("sampling.presence_penalty", [&](Sampling& s) { s.set_presence_penalty(bad); });
    refuse("sampling.frequency_penalty", [&](Sampling& s) { s.set_frequency_penalty(bad); });
  }
  refuse("sampling.repetition_penalty", [](Sampling& s) { s.set_repetition_penalty(0); });
  refuse("sampling.top_k", [](Sampling& s) { s.set_top_k(-1); });
  refuse("sampling.logit_bias", [](Sampling& s) { (*s.mutable_logit_bias())[3] = NAN; });
  refuse("sampling.logit_bias", [](Sampling& s) { (*s.mutable_logit_bias())[3] = 101; });
  refuse("sampling.logit_bias", [](Sampling& s) { (*s.mutable_logit_bias())[-1] = 1; });
  refuse("sampling.logit_bias", [](Sampling& s) { (*s.mutable_logit_bias())[1 << 20] = 1; });
  refuse("sampling.logit_bias", [](Sampling& s) {
    for (int i = 0; i < 1025; ++i) (*s.mutable_logit_bias())[i] = 1;
  });
}

TEST_F(RequestParserTest, ParsesEverySamplingField) {
  v1::SamplingParams& sampling = *request_.mutable_sampling();
  sampling.set_temperature(0.7f);
  sampling.set_seed(12);
  sampling.set_top_k(40);
  sampling.set_top_p(0.9f);
  sampling.set_min_p(0.05f);
  sampling.set_repetition_penalty(1.1f);
  sampling.set_presence_penalty(0.5f);
  sampling.set_frequency_penalty(-0.5f);
  (*sampling.mutable_logit_bias())[5] = -3;
  (*sampling.mutable_logit_bias())[2] = 3;
  request_.mutable_stop()->set_min_tokens(3);
  request_.mutable_output()->set_logprobs(4);
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  SamplingParams expected = {{0.7f, 12, 40, 0.9f, 0.05f}, 1.1f, 0.5f, -0.5f, {{2, 3}, {5, -3}}};
  expected.prompt_tokens = static_cast<int>(parsed->decode.prompt.size());
  expected.min_tokens = 3;
  expected.stop_tokens = {parsed->decode.stop_tokens.begin(), parsed->decode.stop_tokens.end()};
  expected.logprobs = 4;
  EXPECT_EQ(parsed->decode.sampling, expected);
}

TEST_F(RequestParserTest, NeutralValuesDisableLogitEdits) {
  v1::SamplingParams& sampling = *request_.mutable_sampling();
  sampling.set_top_p(1);
  sampling.set_top_k(0);
  sampling.set_min_p(0);
  sampling.set_repetition_penalty(1);
  sampling.set_presence_penalty(0);
  sampling.set_frequency_penalty(0);
  request_.mutable_stop()->set_min_tokens(0);
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->decode.sampling.edits_logits());
  EXPECT_FALSE(parsed->decode.sampling.logprobs.has_value());
}

TEST_F(RequestParserTest, MinTokensAndLogprobsAreBounded) {
  request_.mutable_output()->set_logprobs(101);
  ExpectRefused("output.logprobs");
  request_.clear_output();
  request_.mutable_stop()->set_max_tokens(4);
  request_.mutable_stop()->set_min_tokens(5);
  ExpectRefused("stop.min_tokens");
}

TEST_F(RequestParserTest, RefusesInvalidStopConditions) {
  request_.mutable_stop()->add_stop("");
  ExpectRefused("stop.stop");
  request_.mutable_stop()->Clear();
  for (int i = 0; i < 17; ++i) request_.mutable_stop()->add_stop("x");
  ExpectRefused("stop.stop");
  request_.mutable_stop()->Clear();
  for (const TokenId id : {-1, testing::kByteLevelVocabulary}) {
    request_.mutable_stop()->Clear();
    request_.mutable_stop()->add_stop_token_ids(id);
    ExpectRefused("stop.stop_token_ids");
  }
}

TEST_F(RequestParserTest, TheSpeculationModeSelectsThePolicy) {
  request_.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
  request_.mutable_speculation()->set_policy("fixed:4");
  EXPECT_EQ(Parse()->policy.text(), "ar");
  request_.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_ON);
  EXPECT_EQ(Parse()->policy.text(), "fixed:4");
  request_.mutable_speculation()->set_mode(static_cast<v1::SpeculationOptions::Mode>(7));
  ExpectRefused("speculation.mode");
}

TEST_F(RequestParserTest, RefusesInvalidPolicies) {
  for (const char* policy : {"magic", "fixed:", "fixed:-1", "beam:4"}) {
    request_.mutable_speculation()->set_policy(policy);
    ExpectRefused("speculation.policy");
  }
}

TEST_F(RequestParserTest, AHugeNodeLimitIsClampedAndDoesNotWrap) {
  request_.mutable_speculation()->set_max_tree_nodes(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(Parse()->decode.max_nodes, kLargestPolicyNumber);
  request_.mutable_speculation()->set_max_tree_nodes(0);
  EXPECT_EQ(Parse()->decode.max_nodes, 0);
}

TEST(ServedModelTest, LoadFailsForIncompleteFolders) {
  const testing::TempFolder empty;
  EXPECT_TRUE(absl::IsNotFound(ServedModel::Load(empty.path()).status()));
  const testing::TempFolder no_tokenizer;
  no_tokenizer.Write("config.json", testing::ServedConfigJson(kContext).dump());
  EXPECT_FALSE(ServedModel::Load(no_tokenizer.path()).ok());
}

TEST_F(RequestParserTest, ThePriorityIsTheWeightTimesTen) {
  for (const auto& [priority, weight] : std::map<int, double>{{1, 0.1}, {10, 1}, {100, 10}}) {
    request_.set_priority(priority);
    const auto parsed = Parse();
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_DOUBLE_EQ(parsed->decode.weight, weight);
  }
  for (const int priority : {0, 101}) {
    request_.set_priority(priority);
    ExpectRefused("priority");
  }
}

TEST_F(RequestParserTest, TheLatencyTargetIsInMilliseconds) {
  request_.mutable_speculation()->set_latency_target_ms(250);
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->decode.latency_target, absl::Milliseconds(250));
  request_.mutable_speculation()->set_latency_target_ms(0);
  ExpectRefused("speculation.latency_target_ms");
}

TEST_F(RequestParserTest, ALengthThatTheClientSetsIsNotADefault) {
  request_.mutable_stop()->set_max_tokens(5);
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->default_max_tokens);
}

TEST_F(RequestParserTest, ARequestHasOneTo128Answers) {
  EXPECT_EQ(Parse()->answers, 1);
  request_.set_n(128);
  EXPECT_EQ(Parse()->answers, 128);
  request_.set_n(129);
  ExpectRefused("n: 129 is out of range; use 1 to 128");
  request_.set_n(0);
  ExpectRefused("n: 0 is out of range");
}

TEST_F(RequestParserTest, ACacheSaltHasAtMost256Bytes) {
  EXPECT_EQ(Parse()->decode.cache_salt, "");
  request_.set_cache_salt(std::string(256, 's'));
  EXPECT_EQ(Parse()->decode.cache_salt, request_.cache_salt());
  request_.set_cache_salt(std::string(257, 's'));
  ExpectRefused("cache_salt: has 257 bytes");
}

TEST_F(RequestParserTest, AConstraintIsCompiled) {
  request_.mutable_constraint()->set_regex("ab");
  auto parsed = Parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_NE(parsed->decode.constraint, nullptr);
  auto constraint = *parsed->decode.constraint->Copy();
  EXPECT_EQ(constraint->Allowed()->size(), 1);
  EXPECT_TRUE(constraint->Push('a').ok());
  EXPECT_TRUE(constraint->Push('b').ok());
  EXPECT_TRUE(constraint->complete());
  request_.clear_constraint();
  EXPECT_EQ(Parse()->decode.constraint, nullptr);
}

TEST_F(RequestParserTest, ACallerSharesEqualConstraintsOnlyWithItself) {
  request_.mutable_constraint()->set_regex("ab");
  const auto constraint = [this](const std::string& caller) {
    return parser_->Parse(request_, caller)->decode.constraint;
  };
  const auto of_alice = constraint("alice");
  EXPECT_EQ(constraint("alice"), of_alice);
  EXPECT_NE(constraint("bob"), of_alice);
  request_.set_cache_salt("other");
  EXPECT_NE(constraint("alice"), of_alice);
  request_.clear_cache_salt();
  request_.clear_constraint();
  request_.mutable_constraint()->set_grammar("ab");
  EXPECT_FALSE(parser_->Parse(request_, "alice").ok()) << "the same text in another language";
}

TEST_F(RequestParserTest, InvalidConstraintsAreRefusedByName) {
  request_.mutable_constraint()->set_regex("a(b");
  ExpectRefused("constraint.regex");
  request_.mutable_constraint()->set_json_schema("{");
  ExpectRefused("constraint.json_schema");
  request_.mutable_constraint()->set_grammar("start: other");
  ExpectRefused("constraint.grammar");
  request_.mutable_constraint()->set_regex(std::string(65537, 'a'));
  ExpectRefused("constraint");
}

TEST_F(RequestParserTest, AConstraintDecidesAloneWhenTheAnswerMayEnd) {
  request_.mutable_constraint()->set_regex("ab");
  request_.mutable_stop()->set_min_tokens(3);
  ExpectRefused("constraint");
  request_.mutable_stop()->set_min_tokens(0);
  request_.mutable_stop()->set_ignore_eos(true);
  ExpectRefused("constraint");
}

}  // namespace
}  // namespace bastion
