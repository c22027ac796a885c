#include "orchestrator/remote/remote_drafter.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/telemetry/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/open_stream.h"

namespace bastion {

namespace proto = internal::v1;

RemoteDrafter::RemoteDrafter(const RemoteOptions& options)
    : options_(options),
      stub_(proto::DrafterService::NewStub(wire::ConnectPeer(options.address, *options.security))),
      attacher_(options.address, options.carrier, wire::AttachRequest::STREAM_STEPS,
                [this](auto* context, const auto& request, auto* reply) {
                  return stub_->Attach(context, request, reply);
                }),
      steps_(absl::StrCat("the drafter at ", options.address), [this](absl::Time deadline) {
        return wire::OpenTimedStream<proto::DrafterRequest, proto::DrafterReply>(
            attacher_,
            [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
              return stub_->PrepareAsyncSteps(context, queue);
            },
            deadline);
      }) {}

absl::StatusOr<DrafterInfo> RemoteDrafter::Info() {
  grpc::ClientContext context;
  wire::AddProtocolVersion(context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(2)));
  proto::DrafterInfo info;
  const grpc::Status status = stub_->GetInfo(&context, {}, &info);
  if (!status.ok()) {
    return Annotate(wire::FromGrpc(status), absl::StrCat("drafter at ", options_.address));
  }
  wants_tokens_ = info.wants_tokens();
  return wire::Decode(info);
}

absl::StatusOr<DraftResult> RemoteDrafter::Expand(absl::Span<const Frontier> frontiers) {
  proto::DrafterRequest request;
  request.set_traceparent(FormatTraceparent(CurrentTrace()));
  // Set even if there are no frontiers, so that the message is an Expand.
  proto::DrafterRequest::Expand& expand = *request.mutable_expand();
  for (const Frontier& frontier : frontiers) {
    proto::DrafterRequest::Frontier& added = *expand.add_frontiers();
    wire::Encode(frontier, added);
    if (wants_tokens_) continue;
    added.clear_new_tokens();
    added.clear_cache_salt();
  }
  ASSIGN_OR_RETURN(const proto::DrafterReply reply,
                   steps_.Call(std::move(request), options_.call_timeout));
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
  steps_.Post(std::move(request), kCloseTimeout);
}

}  // namespace bastion
