// OpenAI's API over a real HTTP server, with a scheduler over fake stages.
#ifndef BASTION_TESTS_ORCHESTRATOR_OPENAI_OPENAI_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_OPENAI_OPENAI_FIXTURE_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "orchestrator/openai/openai_api.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/request_ends.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/support/http_client.h"

namespace bastion::testing {

inline constexpr char kCompletions[] = "/v1/completions";
inline constexpr char kChats[] = "/v1/chat/completions";
// The template shows roles, contents and one of its variables. The toy vocabulary ends before the
// small letters.
inline constexpr char kChatTemplate[] =
    "{% for m in messages %}[{{ m.role | upper }}]{{ m.content }}{% endfor %}{{ tail }}";

class OpenAiTest : public SchedulerTest {
 protected:
  OpenAiTest() { observer_ = &ends_; }
  void TearDown() override {
    verifier_.Hold(false);
    server_.reset();
    scheduler_.reset();
  }

  // Serves the API, when the scheduler has started.
  void Serve(HttpOptions http = {}) {
    intake_.emplace(&parser_, scheduler_.get());
    api_.emplace(CallOptions{&model_.model(), scheduler_.get(), &ends_}, &*intake_, nullptr);
    http.listen = "127.0.0.1:0";
    http.errors = OpenAiApi::Errors();
    auto server = HttpServer::Start(http, api_->Routes());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void StartAndServe(const HttpOptions& http = {}) {
    StartAndAwaitReady();
    Serve(http);
  }

  HttpAnswer Post(const std::string& path, const nlohmann::json& body,
                  const std::string& headers = "") {
    return Fetch(server_->port(), path, headers, "POST", body.dump());
  }
  // Posts, and returns the object of the answer. Expects status 200.
  nlohmann::json PostOk(const std::string& path, const nlohmann::json& body) {
    const HttpAnswer answer = Post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return nlohmann::json::parse(answer.body, nullptr, false);
  }
  // The bytes of a chunked body.
  static std::string Unchunked(absl::string_view chunks) {
    std::string bytes;
    for (;;) {
      const size_t end = chunks.find("\r\n");
      size_t size = 0;
      if (end == absl::string_view::npos || !absl::SimpleHexAtoi(chunks.substr(0, end), &size) ||
          size == 0) {
        return bytes;
      }
      absl::StrAppend(&bytes, chunks.substr(end + 2, size));
      chunks.remove_prefix(end + 2 + size + 2);
    }
  }
  // The data of the server-sent events of an answer.
  static std::vector<std::string> Events(const HttpAnswer& answer) {
    std::vector<std::string> events;
    for (absl::string_view event : absl::StrSplit(Unchunked(answer.body), "\n\n")) {
      if (absl::ConsumePrefix(&event, "data: ")) events.emplace_back(event);
    }
    return events;
  }
  // Posts a request with "stream": true. Returns the chunks before [DONE], which must be there.
  std::vector<nlohmann::json> PostStream(const std::string& path, nlohmann::json body) {
    body["stream"] = true;
    const HttpAnswer answer = Post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_THAT(answer.head, ::testing::HasSubstr("text/event-stream"));
    std::vector<std::string> events = Events(answer);
    EXPECT_FALSE(events.empty());
    if (events.empty()) return {};
    EXPECT_EQ(events.back(), "[DONE]");
    events.pop_back();
    std::vector<nlohmann::json> chunks;
    for (const std::string& event : events) {
      chunks.push_back(nlohmann::json::parse(event, nullptr, false));
    }
    return chunks;
  }
  // The text of plain decoding after `prompt`.
  std::string Expected(const std::string& prompt, int tokens) {
    const hub::Tokenizer& tokenizer = model_.model().tokenizer;
    return *tokenizer.Decode(ToyText(*tokenizer.Encode(prompt, /*add_special=*/true), {}, tokens),
                             /*skip_special=*/true);
  }

  Ends ends_;
  const ServedModelFixture model_{/*context=*/512, kChatTemplate};
  const RequestParser parser_{&model_.model(), *Policy::Parse("default")};
  std::optional<RequestIntake> intake_;
  std::optional<OpenAiApi> api_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_OPENAI_OPENAI_FIXTURE_H_
