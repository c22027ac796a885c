// A console over a real HTTP server, with a scheduler over fake stages.
#ifndef BASTION_TESTS_ORCHESTRATOR_CONSOLE_CONSOLE_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_CONSOLE_CONSOLE_FIXTURE_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "orchestrator/console/console.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/request_ends.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/support/http_client.h"

namespace bastion::testing {

// The toy vocabulary ends before the small letters.
inline constexpr char kPrompt[] = R"({"prompt": "ABC", "max_new_tokens": 12, "policy": "fixed:4"})";
inline constexpr char kLongPrompt[] = R"({"prompt": "ABC", "max_new_tokens": 400, "policy": "ar"})";

class ConsoleTest : public SchedulerTest {
 protected:
  ConsoleTest() {
    observers_.Add(&feed_);
    observers_.Add(&ends_);
    observer_ = &observers_;
  }
  void TearDown() override {
    verifier_.Hold(false);
    server_.reset();
    scheduler_.reset();
  }

  // Serves the console, when the scheduler has started.
  void Serve(bool show_text = false) {
    intake_.emplace(&parser_, scheduler_.get());
    console_.emplace(CallOptions{&model_.model(), scheduler_.get(), &observers_}, &*intake_, &feed_,
                     show_text);
    auto server = HttpServer::Start({.listen = "127.0.0.1:0"}, console_->Routes());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void StartAndServe(bool show_text = false) {
    StartAndAwaitReady();
    Serve(show_text);
  }

  HttpAnswer Post(const std::string& body, const std::string& headers = "") {
    return Fetch(server_->port(), "/console/generate", headers, "POST", body);
  }
  // Sends a prompt and returns when its answer has begun.
  std::unique_ptr<HttpConnection> Begin(const std::string& body) {
    auto connection = std::make_unique<HttpConnection>(server_->port());
    connection->Send(absl::StrCat(
        "POST /console/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(),
        "\r\n\r\n", body));
    std::string received;
    while (received.find("started") == std::string::npos) {
      const std::string part = connection->Receive();
      if (part.empty()) break;
      received += part;
    }
    EXPECT_THAT(received, ::testing::HasSubstr("started"));
    return connection;
  }
  nlohmann::json State(int64_t after = 0) {
    const HttpAnswer answer = Fetch(server_->port(), absl::StrCat("/console/state?after=", after));
    EXPECT_EQ(answer.status, 200);
    return nlohmann::json::parse(answer.body, nullptr, false);
  }
  // The lines of a chunked response.
  static std::vector<nlohmann::json> Lines(const HttpAnswer& answer) {
    std::vector<nlohmann::json> lines;
    for (const absl::string_view line : absl::StrSplit(answer.body, '\n')) {
      if (absl::StartsWith(line, "{")) lines.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return lines;
  }
  // The handler of a route.
  HttpHandler Handler(const std::string& path) {
    for (const HttpRoute& route : console_->Routes()) {
      if (route.path == path) return route.handler;
    }
    return nullptr;
  }

  ConsoleFeed feed_;
  Ends ends_;
  ObserverList observers_;
  const ServedModelFixture model_{/*context=*/512, "Q: {{ messages[0]['content'] }}"};
  const RequestParser parser_{&model_.model(), *Policy::Parse("default")};
  std::optional<RequestIntake> intake_;
  std::optional<Console> console_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_CONSOLE_CONSOLE_FIXTURE_H_
