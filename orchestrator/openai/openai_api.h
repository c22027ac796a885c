// OpenAiApi: OpenAI's HTTP API for completions and chats, on the orchestrator's HTTP server.
// Programs that use the official clients of that API work with a base URL of http://HOST:PORT/v1.
// Its requests are requests of the public API (generation.proto) like all others. docs/openai.md
// describes it. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_API_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_API_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/http_server.h"
#include "common/telemetry/tracer.h"
#include "orchestrator/api/call_trace.h"
#include "orchestrator/api/submitted_call.h"
#include "orchestrator/intake/request_intake.h"
#include "orchestrator/intake/work_limit.h"
#include "orchestrator/openai/openai_answers.h"
#include "orchestrator/openai/openai_request.h"

namespace bastion {

class OpenAiApi {
 public:
  // The client of requests without `user`, for fairness among clients.
  static constexpr char kClient[] = "openai";

  // All pointers must outlive this object and the server of its routes. `tracer` may be null.
  // `format` is how the model calls tools; nullopt: as its chat template shows.
  OpenAiApi(const CallOptions& calls, RequestIntake* intake, Tracer* tracer,
            std::optional<ToolFormat> format = std::nullopt);

  // POST /v1/completions and /v1/chat/completions, GET /v1/models, /v1/models/MODEL and /health.
  [[nodiscard]] std::vector<HttpRoute> Routes();
  // The server's own errors below /v1, in the shape of OpenAI's errors.
  [[nodiscard]] static HttpErrorFormat Errors();

 private:
  // A call of a client.
  struct Call {
    OpenAiKind kind;
    const HttpRequest& http;
    HttpResponse& response;
    const std::string id;
    CallTrace& trace;
  };

  void Generate(OpenAiKind kind, const HttpRequest& http, HttpResponse& response);
  // Answers a call. An error: nothing was sent.
  [[nodiscard]] absl::Status Serve(const Call& call, OpenAiRequest& request);
  // Parses the request.
  [[nodiscard]] absl::StatusOr<OpenAiRequest> Read(const Call& call);
  [[nodiscard]] absl::StatusOr<RequestIntake::Entered> Enter(const Call& call,
                                                             const OpenAiRequest& request);
  // Streams the output as events, with an event for an error.
  void Stream(const Call& call, const OpenAiRequest& request, OpenAiAnswers& answers,
              SubmittedCall& submitted) const;
  // Sends all output at the end.
  [[nodiscard]] absl::Status SendAtEnd(const Call& call, OpenAiAnswers& answers,
                                       SubmittedCall& submitted) const;
  [[nodiscard]] std::string ModelJson() const;

  const CallOptions calls_;
  RequestIntake* const intake_;
  Tracer* const tracer_;
  const ToolFormat format_;
  const absl::Time started_;
  WorkLimit parsing_;  // Parsed bodies take several times their bytes.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_API_H_
