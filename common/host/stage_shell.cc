#include "common/host/stage_shell.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::wire {

absl::Status StageShell::CheckAttach(const AttachCall& call, Right right,
                                     AttachRequest::Stream kind) const {
  RETURN_IF_ERROR(CheckCaller(*call.context, *security_, right));
  if (attach_ != nullptr && call.request->stream() == kind) return absl::OkStatus();
  return absl::UnimplementedError("shared memory is off; set --shared_memory");
}

absl::Status StageShell::RunStep(absl::FunctionRef<absl::Status()> step,
                                 google::protobuf::Message& reply) const {
  try {
    return step();
  } catch (const std::exception& error) {
    LOG(ERROR) << "a call failed: " << error.what();
    reply.Clear();
    return absl::InternalError(absl::StrCat("the call failed in the ", name_, "; see its log"));
  }
}

}  // namespace bastion::wire
