#include "orchestrator/serve/request_intake.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "orchestrator/serve/error_details.h"

namespace bastion {
namespace {

// Tokenizing a text takes about 400 times its bytes of memory.
constexpr size_t kTokenizingBytes = 1 << 20;

int Turns(const IntakeOptions& options) {
  return options.tokenizing > 0 ? options.tokenizing : static_cast<int>(UsableCores().size()) / 2;
}

}  // namespace

RequestIntake::RequestIntake(const RequestParser* parser, Scheduler* scheduler,
                             const IntakeOptions& options)
    : parser_(parser),
      scheduler_(scheduler),
      quota_(options.max_client_calls),
      tokenizing_(Turns(options), kTokenizingBytes) {}

absl::StatusOr<RequestIntake::Entered> RequestIntake::Enter(const v1::GenerateRequest& request,
                                                            const Caller& caller) {
  // Calls that wait here will wait in the queue next, so they take places there.
  const int others = entering_++;
  const auto leave = absl::MakeCleanup([this] { --entering_; });
  RETURN_IF_ERROR(scheduler_->CheckRoom(others));
  const std::string& client = caller.name.empty() ? caller.client : caller.name;
  ASSIGN_OR_RETURN(ClientQuota::Call call, quota_.Enter(client));
  RETURN_IF_ERROR(parser_->CheckBounds(request));
  ASSIGN_OR_RETURN(const WorkLimit::Turn turn,
                   tokenizing_.Wait(request.ByteSizeLong(), caller.deadline, caller.is_canceled));
  RETURN_IF_ERROR(scheduler_->CheckRoom(0));
  ASSIGN_OR_RETURN(PreparedRequest prepared, parser_->Parse(request, caller.name));
  if (prepared.decode.constraint != nullptr && !scheduler_->stats().target.takes_masks) {
    return FieldError("constraint", "the verifier of this server does not support constraints");
  }
  prepared.client = client;
  prepared.deadline = caller.deadline;
  return Entered{std::move(prepared), std::move(call)};
}

}  // namespace bastion
