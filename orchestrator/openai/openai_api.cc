#include "orchestrator/openai/openai_api.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "orchestrator/api/http_status.h"
#include "orchestrator/api/public_status.h"
#include "orchestrator/intake/request_id.h"
#include "orchestrator/openai/openai_tools.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kEvents[] = "text/event-stream; charset=utf-8";
constexpr char kPrefix[] = "/v1/";
// Bodies are parsed with at most this many bytes at a time.
constexpr int kParsing = 4;
constexpr size_t kParsingBytes = 1 << 20;
// JSON may need 6 bytes for a character that takes 2 bytes in UTF-8.
constexpr size_t kJsonBytesPerByte = 3;
constexpr size_t kLongestUser = 128;  // Bytes.
// Memory of an answer that is not streamed.
constexpr size_t kMaxAnswerBytes = size_t{64} << 20;
constexpr size_t kLogprobBytes = 512;  // A token in JSON takes this, or more.

size_t SizeOf(const OutputDelta& delta) {
  size_t bytes = delta.text.size();
  for (const TokenLogprobs& token : delta.logprobs) bytes += (1 + token.top.size()) * kLogprobBytes;
  return bytes;
}

std::string HeaderOf(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

ToolFormat FormatOf(const ServedModel& model) {
  return model.chat_template ? ToolFormatOf(model.chat_template->tool_source())
                             : ToolFormat::kHermes;
}

const char* PathOf(OpenAiKind kind) {
  return kind == OpenAiKind::kChat ? "/v1/chat/completions" : "/v1/completions";
}

}  // namespace

OpenAiApi::OpenAiApi(const CallOptions& calls, RequestIntake* intake, Tracer* tracer,
                     std::optional<ToolFormat> format)
    : calls_(calls),
      intake_(intake),
      tracer_(tracer),
      format_(format.value_or(FormatOf(*calls.model))),
      started_(absl::Now()),
      parsing_(kParsing, kParsingBytes) {}

HttpErrorFormat OpenAiApi::Errors() {
  return {.prefix = kPrefix, .type = kJson, .body = [](int status, absl::string_view message) {
            return OpenAiErrorJson(status, std::string(message));
          }};
}

std::string OpenAiApi::ModelJson() const {
  return nlohmann::ordered_json{{"id", calls_.model->name},
                                {"object", "model"},
                                {"created", absl::ToUnixSeconds(started_)},
                                {"owned_by", "bastion"},
                                {"max_model_len", calls_.model->config.max_positions}}
      .dump();
}

std::vector<HttpRoute> OpenAiApi::Routes() {
  const size_t body_bytes = kJsonBytesPerByte * intake_->parser().max_request_bytes();
  const auto generate = [&](OpenAiKind kind) {
    const auto handler = [this, kind](const HttpRequest& request, HttpResponse& response) {
      Generate(kind, request, response);
    };
    return HttpRoute{.method = "POST",
                     .path = PathOf(kind),
                     .handler = handler,
                     .right = Right::kGenerate,
                     .max_body_bytes = body_bytes,
                     .cross_origin = true};
  };
  const auto models = [this](const HttpRequest&, HttpResponse& response) {
    response.Send(200, kJson, absl::StrCat(R"({"object":"list","data":[)", ModelJson(), "]}"));
  };
  const auto model = [this](const HttpRequest&, HttpResponse& response) {
    response.Send(200, kJson, ModelJson());
  };
  const auto health = [this](const HttpRequest&, HttpResponse& response) {
    response.Send(calls_.scheduler->stats().ready ? 200 : 503, kJson, "");
  };
  const auto get = [](const std::string& path, const HttpHandler& handler) {
    return HttpRoute{.method = "GET",
                     .path = path,
                     .handler = handler,
                     .right = Right::kGenerate,
                     .cross_origin = true};
  };
  std::vector<HttpRoute> routes = {
      generate(OpenAiKind::kCompletion), generate(OpenAiKind::kChat), get("/v1/models", models),
      get(absl::StrCat("/v1/models/", calls_.model->name), model), get("/health", health)};
  routes.back().right = std::nullopt;
  routes.back().reserved = true;
  return routes;
}

void OpenAiApi::Generate(OpenAiKind kind, const HttpRequest& http, HttpResponse& response) {
  CallTrace trace(tracer_, HeaderOf(http, kTraceparentKey), HeaderOf(http, kTracestateKey));
  trace.SetHttpRoute(PathOf(kind));
  if (trace.context().valid()) {
    response.AddHeader(kTraceparentKey, FormatTraceparent(trace.context()));
  }
  const Call call = {kind, http, response, RequestIdOrNew(HeaderOf(http, "x-request-id")), trace};
  response.AddHeader("X-Request-Id", call.id);
  OpenAiRequest request;
  request.kind = kind;
  const absl::Status status = PublicStatusOf([&] { return Serve(call, request); }, call.id);
  if (status.ok()) return;
  trace.SetStatus(status);
  if (const auto delay = RetryDelay(status)) {
    response.AddHeader("Retry-After",
                       absl::StrCat(absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1)))));
  }
  response.Send(HttpStatusOf(status), kJson, OpenAiErrorJson(request, status));
}

absl::Status OpenAiApi::Serve(const Call& call, OpenAiRequest& request) {
  const auto refuse = [&](const absl::Status& status) {
    TellObserver(calls_.observer, [&](ServingObserver& observer) { observer.OnRefusal(status); });
    return status;
  };
  absl::StatusOr<OpenAiRequest> read = Read(call);
  if (!read.ok()) return refuse(read.status());
  request = *std::move(read);
  absl::StatusOr<RequestIntake::Entered> entered = Enter(call, request);
  if (!entered.ok()) return refuse(entered.status());
  std::vector<PreparedRequest>& prepared = entered->requests;
  for (size_t i = 0; i < prepared.size(); ++i) {
    prepared[i].request_id = i == 0 ? call.id : absl::StrCat(call.id, "-", i);
  }
  call.trace.SetRequests(prepared, calls_.model->name);
  for (PreparedRequest& one : prepared) one.trace = call.trace.context();
  const AnswerForm form = {format_, prepared.front().reasoning};
  absl::StatusOr<SubmittedCall> submitted = SubmittedCall::Submit(calls_, std::move(prepared));
  if (!submitted.ok()) return refuse(submitted.status());
  OpenAiAnswers answers(request, *calls_.model, call.id, absl::Now(), form);
  if (!request.stream) return SendAtEnd(call, answers, *submitted);
  Stream(call, request, answers, *submitted);
  return absl::OkStatus();
}

absl::StatusOr<OpenAiRequest> OpenAiApi::Read(const Call& call) {
  RETURN_IF_ERROR(calls_.scheduler->CheckRoom(0));
  ASSIGN_OR_RETURN(const WorkLimit::Permit permit,
                   parsing_.Wait(call.http.body.size(), absl::InfiniteDuration(),
                                 [&] { return !call.response.connected(); }));
  ASSIGN_OR_RETURN(OpenAiRequest request, ParseOpenAiRequest(call.kind, call.http.body));
  ConstrainAnswers(*calls_.model, format_, &request);
  return request;
}

absl::StatusOr<RequestIntake::Entered> OpenAiApi::Enter(const Call& call,
                                                        const OpenAiRequest& request) {
  std::vector<const v1::GenerateRequest*> requests = {&request.generate};
  for (const v1::GenerateRequest& other : request.other_prompts) requests.push_back(&other);
  const bool has_user = !request.user.empty() && request.user.size() <= kLongestUser;
  return intake_->Enter(requests, {.name = call.http.caller,
                                   .client = has_user ? request.user : kClient,
                                   .host = call.http.host,
                                   .is_canceled = [&] { return !call.response.connected(); }});
}

void OpenAiApi::Stream(const Call& call, const OpenAiRequest& request, OpenAiAnswers& answers,
                       SubmittedCall& submitted) const {
  call.response.Begin(200, kEvents);
  OutputDelta delta;
  while (submitted.Next([&] { return !call.response.connected(); }, delta)) {
    const absl::Duration began = Clock::Real().Now();
    if (!call.response.Write(answers.Events(delta))) {
      call.trace.SetStatus(LiveRequest::CanceledError());
      return;
    }
    call.trace.AddSend(began, delta);
  }
  const absl::Status status = PublicStatus(submitted.status(), call.id);
  call.trace.SetStatus(status);
  call.response.Write(status.ok()
                          ? answers.LastEvents()
                          : absl::StrCat("data: ", OpenAiErrorJson(request, status), "\n\n"));
}

absl::Status OpenAiApi::SendAtEnd(const Call& call, OpenAiAnswers& answers,
                                  SubmittedCall& submitted) const {
  OutputDelta delta;
  size_t bytes = 0;
  while (submitted.Next([&] { return !call.response.connected(); }, delta)) {
    const absl::Duration began = Clock::Real().Now();
    bytes += SizeOf(delta);
    if (bytes > kMaxAnswerBytes) {
      return ForClient(absl::ResourceExhaustedError(absl::StrCat(
          "the answer is larger than ", kMaxAnswerBytes >> 20, " MiB; set stream to true")));
    }
    answers.Add(delta);
    call.trace.AddSend(began, delta);
  }
  RETURN_IF_ERROR(submitted.status());
  call.response.Send(200, kJson, answers.Object());
  return absl::OkStatus();
}

}  // namespace bastion
