#include "orchestrator/remote/remote_drafter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/telemetry/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/open_stream.h"

namespace bastion {

namespace proto = internal::v1;

RemoteDrafter::RemoteDrafter(const RemoteOptions& options)
    : options_(options),
      channel_(options.address, options.security),
      attacher_(options.address, options.carrier, wire::AttachRequest::STREAM_STEPS,
                [this](auto* context, const auto& request, auto* reply) {
                  return channel_.NewStub<proto::DrafterService>()->Attach(context, request, reply);
                }),
      steps_(
          absl::StrCat("the drafter at ", options.address),
          [this](absl::Time deadline) {
            return wire::OpenTimedStream<proto::DrafterRequest, proto::DrafterReply>(
                attacher_,
                [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
                  return channel_.NewStub<proto::DrafterService>()->PrepareAsyncSteps(context,
                                                                                      queue);
                },
                deadline);
          },
          [this] { return watch_.status(); }),
      patience_(options.call_timeout),
      watch_(
          absl::StrCat("the drafter at ", options.address), options.peer_timeout,
          [this](absl::Duration timeout) { return Ask(timeout); },
          /*unknown_call=*/absl::ZeroDuration()) {}

absl::StatusOr<EngineActivity> RemoteDrafter::Ask(absl::Duration timeout) {
  grpc::ClientContext context;
  wire::AddProtocolVersion(context);
  context.set_deadline(wire::GrpcDeadline(SteadyNow() + timeout));
  proto::DrafterInfo info;
  const absl::Status status =
      wire::FromGrpc(channel_.NewStub<proto::DrafterService>()->GetInfo(&context, {}, &info));
  channel_.Report(status);
  RETURN_IF_ERROR(status);
  MutexLock lock(&info_mutex_);
  info_ = wire::Decode(info);
  return wire::Decode(info.activity());
}

absl::StatusOr<DrafterInfo> RemoteDrafter::Info() {
  absl::Status alive = std::exchange(asked_, true) ? watch_.status() : watch_.AwaitAnswer();
  if (!alive.ok()) {
    // A drafter that is lost no longer reads its stream, so that every Close would have to wait.
    if (watch_.RenewIfLost()) {
      steps_.Drop();
      unsent_closes_.clear();
    }
    return alive;
  }
  MutexLock lock(&info_mutex_);
  wants_tokens_ = info_.wants_tokens;
  return info_;
}

absl::StatusOr<DraftResult> RemoteDrafter::Expand(absl::Span<const Frontier> frontiers) {
  proto::DrafterRequest request;
  request.set_traceparent(FormatTraceparent(CurrentTrace()));
  // Set even if there are no frontiers, so that the message is an Expand.
  proto::DrafterRequest::Expand& expand = *request.mutable_expand();
  int64_t work = 0;
  for (const Frontier& frontier : frontiers) {
    proto::DrafterRequest::Frontier& added = *expand.add_frontiers();
    wire::Encode(frontier, added);
    work += static_cast<int64_t>(frontier.paths.size() + frontier.new_tokens.size());
    if (wants_tokens_) continue;
    added.clear_new_tokens();
    added.clear_cache_salt();
  }
  for (const SequenceId sequence : std::exchange(unsent_closes_, {})) Close(sequence);
  StopWatch call_time;
  const absl::StatusOr<proto::DrafterReply> called =
      steps_.Call(std::move(request), patience_.For(work));
  if (!called.ok()) {
    patience_.RecordFailure();
    watch_.Renew();
    return called.status();
  }
  patience_.Record(work, call_time.Lap());
  const proto::DrafterReply& reply = *called;
  RETURN_IF_ERROR(wire::Decode(reply.status()));
  if (reply.drafts_size() != static_cast<int>(frontiers.size())) {
    return absl::InternalError(absl::StrCat("the drafter at ", options_.address, " returned ",
                                            reply.drafts_size(), " drafts for ", frontiers.size(),
                                            " frontiers"));
  }
  DraftResult result;
  for (const proto::DrafterReply::Draft& draft : reply.drafts()) {
    ASSIGN_OR_RETURN(result.drafts.emplace_back(), wire::Decode(draft, steps_.carrier()));
  }
  result.trace = wire::Decode(reply.trace());
  return result;
}

void RemoteDrafter::Close(SequenceId sequence) {
  // If the stream is gone, the drafter has already closed the sequence.
  proto::DrafterRequest request;
  wire::Encode(sequence, *request.mutable_close()->mutable_sequence());
  if (!steps_.Post(std::move(request), kCloseTimeout)) unsent_closes_.push_back(sequence);
}

}  // namespace bastion
