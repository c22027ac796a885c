#include "orchestrator/openai/openai_api.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/orchestrator/openai/openai_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::HttpConnection;
using testing::kChats;
using testing::kCompletions;
using testing::OpenAiTest;

constexpr int kTokens = 12;

json CompletionBody() { return {{"prompt", "ABC"}, {"max_tokens", kTokens}, {"temperature", 0}}; }
json ChatBody() {
  return {{"messages", json::array({{{"role", "user"}, {"content", "ABC"}}})},
          {"max_tokens", kTokens},
          {"temperature", 0}};
}

TEST_F(OpenAiTest, ACompletionHasTheTextOfPlainDecoding) {
  StartAndServe();
  const json answer = PostOk(kCompletions, CompletionBody());
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_THAT(answer["id"].get<std::string>(), HasSubstr("cmpl-req-"));
  EXPECT_EQ(answer["model"], model_.model().name);
  ASSERT_EQ(answer["choices"].size(), 1u);
  EXPECT_EQ(answer["choices"][0]["text"], Expected("ABC", kTokens));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], kTokens);
  EXPECT_EQ(answer["usage"]["total_tokens"], 3 + kTokens);
}

TEST_F(OpenAiTest, AStreamHasTheSameText) {
  StartAndServe();
  std::string text;
  json last;
  for (const json& chunk : PostStream(kCompletions, CompletionBody())) {
    EXPECT_EQ(chunk["object"], "text_completion");
    EXPECT_FALSE(chunk.contains("usage"));
    text += chunk["choices"][0]["text"].get<std::string>();
    last = chunk["choices"][0];
  }
  EXPECT_EQ(text, Expected("ABC", kTokens));
  EXPECT_EQ(last["finish_reason"], "length");
}

TEST_F(OpenAiTest, AChatIsRenderedWithTheTemplate) {
  StartAndServe();
  const json answer = PostOk(kChats, ChatBody());
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], Expected("[USER]ABC", kTokens));
  json with_argument = ChatBody();
  with_argument["chat_template_kwargs"] = {{"tail", "Z"}};
  EXPECT_EQ(PostOk(kChats, with_argument)["choices"][0]["message"]["content"],
            Expected("[USER]ABCZ", kTokens));
}

TEST_F(OpenAiTest, AChatStreamBeginsWithTheRole) {
  StartAndServe();
  json body = ChatBody();
  body["stream_options"] = {{"include_usage", true}};
  const std::vector<json> chunks = PostStream(kChats, body);
  ASSERT_GE(chunks.size(), 2u);
  std::string text;
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(chunks[i]["usage"], nullptr);
    const json& delta = chunks[i]["choices"][0]["delta"];
    EXPECT_EQ(delta.contains("role"), i == 0);
    text += delta["content"].get<std::string>();
  }
  EXPECT_EQ(text, Expected("[USER]ABC", kTokens));
  EXPECT_EQ(chunks.back()["choices"], json::array());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], kTokens);
}

TEST_F(OpenAiTest, SeveralAnswersAreChoices) {
  StartAndServe();
  json body = CompletionBody();
  body["n"] = 3;
  const json answer = PostOk(kCompletions, body);
  ASSERT_EQ(answer["choices"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], Expected("ABC", kTokens));
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3 * kTokens);
  std::vector<std::string> texts(3);
  for (const json& chunk : PostStream(kCompletions, body)) {
    const json& choice = chunk["choices"][0];
    texts[choice["index"].get<int>()] += choice["text"].get<std::string>();
  }
  EXPECT_EQ(texts, std::vector(3, Expected("ABC", kTokens)));
}

TEST_F(OpenAiTest, SeveralPromptsAreChoices) {
  StartAndServe();
  json body = CompletionBody();
  body["prompt"] = {"ABC", "D", "EF"};
  body["n"] = 2;
  const std::vector<std::string> expected = {Expected("ABC", kTokens), Expected("ABC", kTokens),
                                             Expected("D", kTokens),   Expected("D", kTokens),
                                             Expected("EF", kTokens),  Expected("EF", kTokens)};
  const json answer = PostOk(kCompletions, body);
  ASSERT_EQ(answer["choices"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], expected[i]) << i;
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3 + 1 + 2);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6 * kTokens);
  std::vector<std::string> texts(expected.size());
  for (const json& chunk : PostStream(kCompletions, body)) {
    const json& choice = chunk["choices"][0];
    texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
  }
  EXPECT_EQ(texts, expected);
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(OpenAiTest, OneRefusedPromptRefusesTheCall) {
  StartAndServe();
  json body = CompletionBody();
  body["prompt"] = {"ABC", "", "D"};
  const HttpAnswer answer = Post(kCompletions, body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body, nullptr, false)["error"]["param"], "prompt") << answer.body;
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(OpenAiTest, PromptsThatDoNotFitIntoTheQueueRefuseTheCall) {
  options_.max_waiting = 64;
  options_.max_running = 1;
  StartAndServe();
  verifier_.Hold(true);
  const auto running = Submit({.prompt = {1}});
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  const auto waiting = Submit({.prompt = {1}});
  json body = CompletionBody();
  body["prompt"] = std::vector<std::string>(64, "ABC");
  const HttpAnswer answer = Post(kCompletions, body);
  EXPECT_EQ(answer.status, 429) << answer.body;
  EXPECT_TRUE(ends_.ended().empty()) << "no prompt may enter alone";
  verifier_.Hold(false);
  EXPECT_TRUE(testing::ReadAll(*running).status.ok());
  EXPECT_TRUE(testing::ReadAll(*waiting).status.ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(OpenAiTest, AStopStringEndsTheAnswerAndIsNamed) {
  StartAndServe();
  const std::string text = Expected("ABC", kTokens);
  json body = CompletionBody();
  body["stop"] = text.substr(3, 2);
  const json choice = PostOk(kCompletions, body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], text.substr(3, 2));
  EXPECT_EQ(choice["text"], text.substr(0, text.find(text.substr(3, 2))));
}

TEST_F(OpenAiTest, CompletionsHaveLogprobsInLists) {
  StartAndServe();
  json body = CompletionBody();
  body["logprobs"] = 2;
  const json whole = PostOk(kCompletions, body)["choices"][0]["logprobs"];
  ASSERT_EQ(whole["tokens"].size(), static_cast<size_t>(kTokens));
  EXPECT_EQ(whole["token_logprobs"].size(), whole["tokens"].size());
  EXPECT_EQ(whole["top_logprobs"].size(), whole["tokens"].size());
  EXPECT_EQ(whole["top_logprobs"][0].size(), 2u);
  EXPECT_EQ(whole["text_offset"][0], 0);
  EXPECT_EQ(whole["text_offset"][1], whole["tokens"][0].get<std::string>().size());
  json joined = json::array();
  for (const json& chunk : PostStream(kCompletions, body)) {
    for (const json& offset : chunk["choices"][0]["logprobs"]["text_offset"]) {
      joined.push_back(offset);
    }
  }
  EXPECT_EQ(joined, whole["text_offset"]);
}

TEST_F(OpenAiTest, ChatsHaveLogprobsByToken) {
  StartAndServe();
  json body = ChatBody();
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const json content = PostOk(kChats, body)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), static_cast<size_t>(kTokens));
  std::string text;
  for (const json& token : content) {
    EXPECT_LE(token["logprob"].get<double>(), 0);
    EXPECT_EQ(token["top_logprobs"].size(), 2u);
    EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]);  // Greedy.
    EXPECT_EQ(token["bytes"].size(), token["token"].get<std::string>().size());
    text += token["token"].get<std::string>();
  }
  EXPECT_EQ(text, Expected("[USER]ABC", kTokens));
}

// Each token of these answers takes 21 * 512 bytes.
TEST_F(OpenAiTest, AnAnswerOfMoreThan64MiBIsAnErrorUnlessItIsStreamed) {
  StartAndServe();
  json body = ChatBody();
  body["n"] = 32;
  body["max_tokens"] = 200;
  body["logprobs"] = true;
  body["top_logprobs"] = 20;
  const HttpAnswer answer = Post(kChats, body);
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.body, HasSubstr("64 MiB"));
  EXPECT_THAT(answer.body, HasSubstr("set stream to true"));
  EXPECT_TRUE(Await([&] { return scheduler_->stats().running == 0; }));
  size_t tokens = 0;
  for (const json& chunk : PostStream(kChats, body)) {
    ASSERT_FALSE(chunk.contains("error")) << chunk;
    for (const json& choice : chunk["choices"]) {
      if (!choice["logprobs"].is_null()) tokens += choice["logprobs"]["content"].size();
    }
  }
  EXPECT_EQ(tokens, size_t{32 * 200});
}

TEST_F(OpenAiTest, ErrorsHaveOpenAisShape) {
  StartAndServe();
  const auto expect = [&](const HttpAnswer& answer, int status, const json& parameter) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_THAT(answer.head, HasSubstr("application/json"));
    const json error = json::parse(answer.body, nullptr, false)["error"];
    EXPECT_FALSE(error["message"].get<std::string>().empty());
    EXPECT_TRUE(error["type"].is_string());
    EXPECT_EQ(error["param"], parameter);
    EXPECT_TRUE(error.contains("code"));
  };
  json body = CompletionBody();
  body["temperature"] = -1;  // Refused by the request parser.
  const HttpAnswer negative = Post(kCompletions, body);
  expect(negative, 400, "temperature");
  EXPECT_THAT(negative.body, HasSubstr(R"("message":"temperature: )"));
  body = CompletionBody();
  body["top_q"] = 1;  // Refused by the parser of this API.
  expect(Post(kCompletions, body), 400, "top_q");
  body = CompletionBody();
  body["model"] = "other";
  expect(Post(kCompletions, body), 404, nullptr);
  expect(Fetch(server_->port(), kCompletions, "", "POST", "{"), 400, nullptr);
  expect(Fetch(server_->port(), kCompletions), 405, nullptr);
  expect(Fetch(server_->port(), "/v1/embeddings", "", "POST", "{}"), 404, nullptr);
  const std::string long_body(3 * parser_.max_request_bytes() + 1, ' ');
  expect(Fetch(server_->port(), kCompletions, "", "POST", long_body), 413, nullptr);
}

TEST_F(OpenAiTest, RequestsNeedAKeyIfThereIsAnAccessList) {
  testing::TempFolder folder;
  folder.Write("access", "team token:0123456789abcdef generate\n");
  auto access = AccessList::Load(folder.path() + "/access");
  ASSERT_TRUE(access.ok()) << access.status();
  StartAndServe({.access = access->get()});
  const HttpAnswer refused = Post(kCompletions, CompletionBody());
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(json::parse(refused.body, nullptr, false)["error"]["code"], "invalid_api_key");
  const std::string key = "Authorization: Bearer 0123456789abcdef\r\n";
  EXPECT_EQ(Post(kCompletions, CompletionBody(), key).status, 200);
  EXPECT_TRUE(Await([&] { return !ends_.ended().empty(); }));
  EXPECT_EQ(ends_.client(), "team");
  EXPECT_EQ(Fetch(server_->port(), "/health").status, 200);  // Load balancers have no key.
}

TEST_F(OpenAiTest, AFullQueueIsATemporaryError) {
  options_.max_waiting = 1;
  options_.max_running = 1;
  StartAndServe();
  verifier_.Hold(true);
  const auto running = Submit({});
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  const auto waiting = Submit({});
  const HttpAnswer answer = Post(kCompletions, CompletionBody());
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.head, HasSubstr("Retry-After: "));
  EXPECT_EQ(json::parse(answer.body, nullptr, false)["error"]["type"], "rate_limit_error");
  EXPECT_THAT(ends_.refused(), ElementsAre(absl::StatusCode::kResourceExhausted));
}

TEST_F(OpenAiTest, AnswersCarryTheIdOfTheirRequest) {
  StartAndServe();
  const HttpAnswer answer = Post(kCompletions, CompletionBody(), "X-Request-Id: my-id\r\n");
  EXPECT_THAT(answer.head, HasSubstr("X-Request-Id: my-id"));
  EXPECT_EQ(json::parse(answer.body, nullptr, false)["id"], "cmpl-my-id");
}

TEST_F(OpenAiTest, UsersAreClients) {
  StartAndServe();
  (void)PostOk(kCompletions, CompletionBody());
  EXPECT_TRUE(Await([&] { return ends_.ended().size() == 1; }));
  EXPECT_EQ(ends_.client(), OpenAiApi::kClient);
  json body = CompletionBody();
  body["user"] = "ann";
  (void)PostOk(kCompletions, body);
  EXPECT_TRUE(Await([&] { return ends_.ended().size() == 2; }));
  EXPECT_EQ(ends_.client(), "ann");
}

TEST_F(OpenAiTest, AClientThatDisconnectsCancelsItsRequest) {
  StartAndServe();
  for (const bool stream : {false, true}) {
    verifier_.Hold(true);
    {
      json body = CompletionBody();
      body["stream"] = stream;
      body["max_tokens"] = 400;
      HttpConnection connection(server_->port());
      connection.Send(absl::StrCat("POST ", kCompletions, " HTTP/1.1\r\nHost: localhost\r\n",
                                   "Content-Length: ", body.dump().size(), "\r\n\r\n",
                                   body.dump()));
      ASSERT_TRUE(verifier_.AwaitHeldCall());
    }
    absl::SleepFor(2 * RequestStream::kClientCheckInterval);
    verifier_.Hold(false);
    EXPECT_TRUE(AwaitIdle());
  }
  EXPECT_THAT(ends_.ended(),
              ElementsAre(absl::StatusCode::kCancelled, absl::StatusCode::kCancelled));
}

TEST_F(OpenAiTest, AnAnswerThatFailsIsAnError) {
  options_.verifier_patience = absl::Milliseconds(50);
  StartAndServe();
  for (const bool stream : {false, true}) {
    ASSERT_TRUE(AwaitReady(true));
    verifier_.Hold(true);
    std::thread breaker([&] {
      EXPECT_TRUE(verifier_.AwaitHeldCall());
      verifier_.SetUnavailable(true);
      verifier_.Hold(false);
    });
    json body = CompletionBody();
    body["stream"] = stream;
    const HttpAnswer answer = Post(kCompletions, body);
    breaker.join();
    EXPECT_EQ(answer.status, stream ? 200 : 503) << answer.body;
    const std::string error = stream ? Events(answer).back() : answer.body;
    EXPECT_EQ(json::parse(error, nullptr, false)["error"]["type"], "server_error") << error;
    verifier_.SetUnavailable(false);
  }
}

TEST_F(OpenAiTest, TheModelIsListed) {
  StartAndServe();
  const json list = json::parse(Fetch(server_->port(), "/v1/models").body, nullptr, false);
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], model_.model().name);
  EXPECT_EQ(list["data"][0]["max_model_len"], 512);
  const std::string path = absl::StrCat("/v1/models/", model_.model().name);
  EXPECT_EQ(json::parse(Fetch(server_->port(), path).body, nullptr, false), list["data"][0]);
  EXPECT_EQ(Fetch(server_->port(), "/v1/models/other").status, 404);
}

TEST_F(OpenAiTest, HealthIsThatOfTheServer) {
  verifier_.SetUnavailable(true);
  Start();
  Serve();
  EXPECT_EQ(Fetch(server_->port(), "/health").status, 503);
  EXPECT_EQ(Post(kCompletions, CompletionBody()).status, 503);
  verifier_.SetUnavailable(false);
  ASSERT_TRUE(AwaitReady(true));
  EXPECT_EQ(Fetch(server_->port(), "/health").status, 200);
}

}  // namespace
}  // namespace bastion
