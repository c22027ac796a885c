// Console: a page for browsers that shows what the service does, live, and sends prompts. Served by
// the orchestrator's HTTP port; docs/console.md describes it. Thread-safe.
//
// Only the answer to a prompt contains text of requests, and only the browser that sent the prompt
// gets it. With `show_text`, draft trees of all requests have text too.
#ifndef BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_H_
#define BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/http_server.h"
#include "orchestrator/api/submitted_call.h"
#include "orchestrator/console/console_feed.h"
#include "orchestrator/console/console_json.h"
#include "orchestrator/intake/request_intake.h"

namespace bastion {

class Console {
 public:
  // Prompts that are answered at a time. Each holds a connection and a thread of the HTTP server.
  static constexpr int kAnswers = 16;
  // The client of prompts, for fairness among clients.
  static constexpr char kClient[] = "console";

  // All pointers must outlive this object and the server of its routes. `feed` must be among the
  // scheduler's observers. It may be null if the routes are not served. `show_text`: show the
  // tokens of all requests' draft trees.
  Console(const CallOptions& calls, RequestIntake* intake, ConsoleFeed* feed,
          bool show_text = false);

  // GET /console (the page) and the files that it loads, GET /console/state, and
  // POST /console/generate.
  [[nodiscard]] std::vector<HttpRoute> Routes();

  // Prompts that are answered now.
  [[nodiscard]] int answers() const { return answers_; }

 private:
  void SendState(const HttpRequest& request, HttpResponse& response);
  void Generate(const HttpRequest& request, HttpResponse& response);
  [[nodiscard]] absl::StatusOr<RequestIntake::Entered> Enter(const HttpRequest& request,
                                                             HttpResponse& response);
  // Submits the request and streams its answer. An error: nothing was sent.
  [[nodiscard]] absl::Status Answer(std::vector<PreparedRequest> requests, HttpResponse& response);

  const CallOptions calls_;
  RequestIntake* const intake_;
  ConsoleFeed* const feed_;
  const ConsoleIdentity identity_;
  std::atomic<int> answers_{0};
  std::atomic<int64_t> asked_{0};  // Prompts so far.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_H_
