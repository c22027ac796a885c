#include "orchestrator/console/console.h"

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "embedded/console.css.h"
#include "embedded/console.html.h"
#include "embedded/console.js.h"
#include "embedded/console_charts.js.h"
#include "embedded/console_prompt.js.h"
#include "embedded/console_requests.js.h"
#include "orchestrator/api/http_status.h"
#include "orchestrator/api/public_status.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

constexpr char kJson[] = "application/json";
constexpr size_t kMaxPromptBytes = 1 << 20;
constexpr char kScript[] = "text/javascript; charset=utf-8";

// Returns a route that sends a file of the page.
HttpRoute File(const char* path, const char* type, const char* content) {
  return {"GET", path, [type, content](const HttpRequest&, HttpResponse& response) {
            response.Send(200, type, content);
          }};
}

std::string RandomName() {
  absl::BitGen bits;
  return absl::StrCat(absl::Hex(absl::Uniform<uint64_t>(bits), absl::kZeroPad16));
}

}  // namespace

Console::Console(const CallOptions& calls, RequestIntake* intake, ConsoleFeed* feed, bool show_text)
    : calls_(calls),
      intake_(intake),
      feed_(feed),
      identity_{.run = RandomName(),
                .model = calls.model->name,
                .policy = intake->parser().default_policy().text(),
                .has_chat = calls.model->chat_template.has_value(),
                .tree_tokenizer = show_text ? &calls.model->tokenizer : nullptr} {}

std::vector<HttpRoute> Console::Routes() {
  const auto state = [this](const HttpRequest& request, HttpResponse& response) {
    SendState(request, response);
  };
  const auto generate = [this](const HttpRequest& request, HttpResponse& response) {
    Generate(request, response);
  };
  return {File("/console", "text/html; charset=utf-8", kConsolePage),
          File("/console/console.css", "text/css; charset=utf-8", kConsoleStyle),
          File("/console/console.js", kScript, kConsoleScript),
          File("/console/console_charts.js", kScript, kConsoleCharts),
          File("/console/console_prompt.js", kScript, kConsolePrompt),
          File("/console/console_requests.js", kScript, kConsoleRequests),
          {"GET", "/console/state", state},
          {"POST", "/console/generate", generate, Right::kGenerate, kMaxPromptBytes}};
}

void Console::SendState(const HttpRequest& request, HttpResponse& response) {
  int64_t after = 0;
  const auto found = request.query.find("after");
  if (found != request.query.end() && !absl::SimpleAtoi(found->second, &after)) {
    response.Send(400, kJson,
                  ConsoleErrorLine(absl::InvalidArgumentError("after: must be an integer")));
    return;
  }
  response.Send(200, kJson,
                ConsoleStateJson(identity_, feed_->Read(after), calls_.scheduler->stats()));
}

void Console::Generate(const HttpRequest& request, HttpResponse& response) {
  const std::string id = absl::StrCat("console-", ++asked_);
  const auto answer = [&]() -> absl::Status {
    const auto leave = absl::MakeCleanup([this] { --answers_; });
    if (++answers_ > kAnswers) {
      return ForClient(absl::ResourceExhaustedError(
          absl::StrCat("the console answers ", kAnswers, " prompts at a time; try again later")));
    }
    ASSIGN_OR_RETURN(RequestIntake::Entered entered, Enter(request, response));
    entered.requests.front().request_id = id;
    return Answer(std::move(entered.requests), response);
  };
  absl::Status status = answer();
  if (status.ok()) return;
  TellObserver(calls_.observer, [&](ServingObserver& observer) { observer.OnRefusal(status); });
  status = PublicStatus(status, id);
  response.Send(HttpStatusOf(status), kJson, ConsoleErrorLine(status));
}

absl::StatusOr<RequestIntake::Entered> Console::Enter(const HttpRequest& request,
                                                      HttpResponse& response) {
  const absl::StatusOr<v1::GenerateRequest> prompt = ParseConsolePrompt(request.body);
  if (!prompt.ok()) return ForClient(prompt.status());
  return intake_->Enter(*prompt, {.name = request.caller,
                                  .client = kClient,
                                  .host = request.host,
                                  .is_canceled = [&] { return !response.connected(); }});
}

absl::Status Console::Answer(std::vector<PreparedRequest> requests, HttpResponse& response) {
  const std::string started = ConsoleStartedLine(requests.front());
  const std::string id = requests.front().request_id;
  ASSIGN_OR_RETURN(SubmittedCall call, SubmittedCall::Submit(calls_, std::move(requests)));
  response.Begin(200, "application/x-ndjson; charset=utf-8");
  if (!response.Write(started)) return absl::OkStatus();
  hub::Detokenizer detokenizer(calls_.model->tokenizer);
  OutputDelta delta;
  while (call.Next([&] { return !response.connected(); }, delta)) {
    if (!response.Write(ConsoleCycleLines(delta, &detokenizer))) return absl::OkStatus();
  }
  if (!call.status().ok()) response.Write(ConsoleErrorLine(PublicStatus(call.status(), id)));
  return absl::OkStatus();
}

}  // namespace bastion
