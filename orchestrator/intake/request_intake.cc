#include "orchestrator/intake/request_intake.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

// Tokenizing a text takes about 400 times its bytes of memory.
constexpr size_t kTokenizingBytes = 1 << 20;

int MaxTokenizing(const IntakeOptions& options) {
  return options.tokenizing > 0 ? options.tokenizing : static_cast<int>(UsableCores().size()) / 2;
}

}  // namespace

RequestIntake::RequestIntake(const RequestParser* parser, Scheduler* scheduler,
                             const IntakeOptions& options)
    : parser_(parser),
      scheduler_(scheduler),
      quota_(options.max_client_calls),
      tokenizing_(MaxTokenizing(options), kTokenizingBytes) {}

absl::StatusOr<RequestIntake::Entered> RequestIntake::Enter(
    absl::Span<const v1::GenerateRequest* const> requests, const Caller& caller) {
  const auto count = static_cast<int>(requests.size());
  RETURN_IF_ERROR(scheduler_->CheckSize(count));
  // Requests that wait here will wait in the queue next, so they take places there.
  const int others = entering_.fetch_add(count) + count - 1;
  const auto leave = absl::MakeCleanup([&] { entering_ -= count; });
  RETURN_IF_ERROR(scheduler_->CheckRoom(others));
  const std::string& client = caller.name.empty() ? caller.client : caller.name;
  ASSIGN_OR_RETURN(ClientQuota::Call call, quota_.Enter(client));
  ASSIGN_OR_RETURN(std::vector<PreparedRequest> prepared, Tokenize(requests, caller, client));
  const ConstraintCaller compiles = {client, caller.name.empty() ? caller.host : caller.name,
                                     caller.deadline, caller.is_canceled};
  for (size_t i = 0; i < prepared.size(); ++i) {
    PreparedRequest& one = prepared[i];
    ASSIGN_OR_RETURN(one.decode.constraint,
                     parser_->constraints().Compile(*requests[i], one.decode.cache_salt, compiles,
                                                    one.reasoning));
    if (one.decode.constraint != nullptr && !scheduler_->stats().target.takes_masks) {
      return FieldError("constraint", "the verifier of this server does not support constraints");
    }
    one.deadline = caller.deadline;
  }
  return Entered{std::move(prepared), std::move(call)};
}

absl::StatusOr<std::vector<PreparedRequest>> RequestIntake::Tokenize(
    absl::Span<const v1::GenerateRequest* const> requests, const Caller& caller,
    const std::string& client) {
  size_t bytes = 0;
  for (const v1::GenerateRequest* request : requests) {
    RETURN_IF_ERROR(parser_->CheckBounds(*request));
    bytes += request->ByteSizeLong();
  }
  ASSIGN_OR_RETURN(const WorkLimit::Permit permit,
                   tokenizing_.Wait(bytes, caller.deadline, caller.is_canceled));
  RETURN_IF_ERROR(scheduler_->CheckRoom(static_cast<int>(requests.size()) - 1));
  std::vector<PreparedRequest> prepared;
  for (const v1::GenerateRequest* request : requests) {
    ASSIGN_OR_RETURN(PreparedRequest one, parser_->ParseText(*request, caller.name, client));
    prepared.push_back(std::move(one));
  }
  return prepared;
}

}  // namespace bastion
