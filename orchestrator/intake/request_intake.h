// RequestIntake: decides whether a call may enter, before any work is done for it. Then it checks
// and tokenizes the request. It refuses a call while the service drains, is not ready or is full,
// and if the client has too many calls. It tokenizes a few requests at a time, so that a flood of
// long prompts exhausts neither the memory nor the cores. Constraints are compiled afterwards, so
// that they hold up no other request. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_INTAKE_REQUEST_INTAKE_H_
#define BASTION_ORCHESTRATOR_INTAKE_REQUEST_INTAKE_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/intake/client_quota.h"
#include "orchestrator/intake/request_parser.h"
#include "orchestrator/intake/work_limit.h"
#include "orchestrator/schedule/scheduler.h"

namespace bastion {

struct IntakeOptions {
  int max_client_calls = 0;  // Calls of one client at a time. 0: no limit.
  int tokenizing = 0;        // Requests tokenized at a time. 0: half of the usable cores.
};

class RequestIntake {
 public:
  // Who calls, and until when an answer is of use.
  struct Caller {
    // Proved by a token or a certificate. A caller with a name is one client, whatever it states,
    // and shares no prefixes with others. Empty if callers need no name.
    std::string name = {};
    std::string client = {};  // What a caller without a name states.
    // The host of a caller without a name. Empty: unknown, or this one (a local socket).
    std::string host = {};
    absl::Duration deadline = absl::InfiniteDuration();  // On Clock::Real().
    std::function<bool()> is_canceled = nullptr;         // Null: never.
  };
  // A call that may be submitted. It counts for its client until this is destroyed.
  struct Entered {
    std::vector<PreparedRequest> requests;  // One per prompt.
    ClientQuota::Call call;
  };

  // The pointers must outlive this object.
  RequestIntake(const RequestParser* parser, Scheduler* scheduler,
                const IntakeOptions& options = {});

  // Enters a call with one request per prompt, all or none. UNAVAILABLE or RESOURCE_EXHAUSTED if
  // the service does not take them now; INVALID_ARGUMENT or NOT_FOUND for a request; CANCELLED or
  // DEADLINE_EXCEEDED. All are for clients (error_details.h). REQUIRES: there is a request.
  [[nodiscard]] absl::StatusOr<Entered> Enter(absl::Span<const v1::GenerateRequest* const> requests,
                                              const Caller& caller);
  // The same for one prompt.
  [[nodiscard]] absl::StatusOr<Entered> Enter(const v1::GenerateRequest& request,
                                              const Caller& caller) {
    return Enter(absl::Span<const v1::GenerateRequest* const>({&request}), caller);
  }

  [[nodiscard]] const RequestParser& parser() const { return *parser_; }

 private:
  // Checks and tokenizes the requests when they get a permit.
  [[nodiscard]] absl::StatusOr<std::vector<PreparedRequest>> Tokenize(
      absl::Span<const v1::GenerateRequest* const> requests, const Caller& caller,
      const std::string& client);

  const RequestParser* const parser_;
  Scheduler* const scheduler_;
  ClientQuota quota_;
  WorkLimit tokenizing_;
  std::atomic<int> entering_{0};  // Requests in Enter.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_REQUEST_INTAKE_H_
