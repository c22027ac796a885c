// Tests the answers to prompts: streams, cancellation and limits.
#include <thread>

#include "orchestrator/console/console.h"
#include "tests/orchestrator/console/console_fixture.h"

namespace bastion {
namespace {

using nlohmann::json;
using testing::ConsoleTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::HttpConnection;
using testing::kLongPrompt;
using testing::kPrompt;
using ::testing::SizeIs;

TEST_F(ConsoleTest, AMessageIsAskedThroughTheChatTemplate) {
  StartAndServe();
  EXPECT_EQ(State()["has_chat"], true);
  const auto prompt_tokens = [&](const std::string& body) {
    const auto lines = Lines(Post(body));
    EXPECT_EQ(lines.back().count("finished"), 1u);
    return lines.at(0)["started"]["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(prompt_tokens(R"({"message": "ABC", "max_new_tokens": 4})"),
            prompt_tokens(R"({"prompt": "Q: ABC", "max_new_tokens": 4})"));
}

TEST_F(ConsoleTest, AnAnswerIsStreamedCycleByCycle) {
  StartAndServe();
  const HttpAnswer answer = Post(kPrompt);
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("application/x-ndjson"));
  const std::vector<json> lines = Lines(answer);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines.front()["started"]["prompt_tokens"], 3);
  int tokens = 0;
  std::string text;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    tokens += lines[i]["tokens"].get<int>();
    text += lines[i]["text"].get<std::string>();
    EXPECT_LE(lines[i]["accepted"], lines[i]["nodes"]);
    EXPECT_TRUE(lines[i]["reason"].is_string());
    EXPECT_GE(lines[i]["ms"], 0);
  }
  const json& finished = lines.back()["finished"];
  EXPECT_EQ(finished["tokens"], tokens);
  EXPECT_EQ(finished["cycles"], lines.size() - 2);
  EXPECT_EQ(finished["policy"], "fixed:4");
  const hub::Tokenizer& tokenizer = model_.model().tokenizer;
  const auto expected =
      testing::ToyText(*tokenizer.Encode("ABC", /*add_special=*/true), {}, tokens);
  EXPECT_EQ(text, *tokenizer.Decode(expected, /*skip_special=*/true));
  EXPECT_TRUE(Await([&] { return !ends_.ended().empty(); }));
  EXPECT_THAT(ends_.ended(), ElementsAre(absl::StatusCode::kOk));
  EXPECT_EQ(ends_.client(), Console::kClient);
}

TEST_F(ConsoleTest, PagesOfOtherSitesCannotSendPrompts) {
  StartAndServe();
  EXPECT_EQ(Post(kPrompt, "Host: localhost\r\nOrigin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(Post(kPrompt, "Host: evil.example\r\n").status, 421);
  EXPECT_THAT(ends_.ended(), SizeIs(0));
}

TEST_F(ConsoleTest, ClosingThePageCancelsARunningAnswer) {
  StartAndServe();
  verifier_.Hold(true);
  auto connection = Begin(kLongPrompt);
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  EXPECT_EQ(console_->answers(), 1);
  connection.reset();
  EXPECT_TRUE(Await([&] { return console_->answers() == 0; }));
  verifier_.Hold(false);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_THAT(ends_.ended(), ElementsAre(absl::StatusCode::kCancelled));
}

TEST_F(ConsoleTest, ClosingThePageFreesThePlaceOfAWaitingPrompt) {
  options_.max_running = 1;
  StartAndServe();
  verifier_.Hold(true);
  const auto running = Submit({});
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  auto connection = Begin(kPrompt);
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 1; }));
  connection.reset();
  EXPECT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
}

TEST_F(ConsoleTest, StoppingTheServerCancelsAnswers) {
  StartAndServe();
  verifier_.Hold(true);
  const auto connection = Begin(kLongPrompt);
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  server_.reset();
  verifier_.Hold(false);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_THAT(ends_.ended(), ElementsAre(absl::StatusCode::kCancelled));
}

// A response whose client reads nothing.
class BlockedResponse final : public HttpResponse {
 public:
  void AddHeader(absl::string_view, absl::string_view) override {}
  void Send(int, absl::string_view, absl::string_view) override {}
  void Begin(int, absl::string_view) override {}
  bool Write(absl::string_view) override {
    MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout([this] { return released_; }, absl::Seconds(20));
    return false;
  }
  bool connected() override { return true; }
  void Release() {
    MutexLock lock(&mutex_);
    released_ = true;
  }

 private:
  Mutex mutex_;
  bool released_ = false;
};

TEST_F(ConsoleTest, AClientThatDoesNotReadGivesUpItsSlotAndThenItsRequest) {
  options_.park_after = absl::ZeroDuration();
  StartAndServe();
  BlockedResponse response;
  const HttpHandler generate = Handler("/console/generate");
  HttpRequest request;
  request.body = kLongPrompt;
  std::thread client([&] { generate(request, response); });
  EXPECT_TRUE(Await([&] { return scheduler_->stats().parked == 1; }));
  response.Release();
  client.join();
  EXPECT_TRUE(AwaitIdle());
  EXPECT_THAT(ends_.ended(), ElementsAre(absl::StatusCode::kCancelled));
}

TEST_F(ConsoleTest, PromptsBeyondTheLimitAreRefusedAtOnce) {
  StartAndServe();
  verifier_.Hold(true);
  std::vector<std::unique_ptr<HttpConnection>> connections;
  for (int i = 0; i < Console::kAnswers; ++i) connections.push_back(Begin(kPrompt));
  EXPECT_EQ(Post(kPrompt).status, 429);
  EXPECT_EQ(State()["service"]["ready"], true);
  verifier_.Hold(false);
  EXPECT_TRUE(
      Await([&] { return console_->answers() == 0 && ends_.ended().size() == Console::kAnswers; }));
  EXPECT_EQ(ends_.ended(), std::vector(Console::kAnswers, absl::StatusCode::kOk));
  EXPECT_EQ(Post(kPrompt).status, 200);
}

TEST_F(ConsoleTest, AFullQueueRefusesPrompts) {
  options_.max_waiting = 1;
  options_.max_running = 1;
  StartAndServe();
  verifier_.Hold(true);
  const auto running = Submit({});
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  const auto waiting = Submit({});
  const HttpAnswer answer = Post(kPrompt);
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.body, HasSubstr("RESOURCE_EXHAUSTED"));
}

TEST_F(ConsoleTest, AnAnswerThatFailsEndsWithTheError) {
  options_.verifier_patience = absl::Milliseconds(50);
  StartAndServe();
  verifier_.Hold(true);
  std::thread breaker([&] {
    EXPECT_TRUE(verifier_.AwaitHeldCall());
    verifier_.SetUnavailable(true);
    verifier_.Hold(false);
  });
  const std::vector<json> lines = Lines(Post(kPrompt));
  breaker.join();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back()["error"]["code"], "UNAVAILABLE");
}

}  // namespace
}  // namespace bastion
