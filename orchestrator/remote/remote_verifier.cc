#include "orchestrator/remote/remote_verifier.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/telemetry/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/open_stream.h"

namespace bastion {

namespace proto = internal::v1;

RemoteVerifier::RemoteVerifier(const RemoteOptions& options)
    : options_(options),
      channel_(wire::ConnectPeer(options.address, *options.security)),
      stub_(proto::VerifierService::NewStub(channel_)),
      attacher_(options.address, options.carrier, wire::AttachRequest::STREAM_STEPS,
                [this](auto* context, const auto& request, auto* reply) {
                  return stub_->Attach(context, request, reply);
                }),
      steps_(absl::StrCat("the verifier at ", options.address), [this](absl::Time deadline) {
        return wire::OpenTimedStream<proto::VerifierRequest, proto::VerifierReply>(
            attacher_,
            [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
              return stub_->PrepareAsyncSteps(context, queue);
            },
            deadline);
      }) {}

absl::StatusOr<TargetInfo> RemoteVerifier::Info() {
  grpc::ClientContext context;
  wire::AddProtocolVersion(context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(2)));
  proto::TargetInfo info;
  const grpc::Status status = stub_->GetInfo(&context, {}, &info);
  if (!status.ok()) {
    // The caller decides when to retry, so the channel must not add its own backoff.
    grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
    return Annotate(wire::FromGrpc(status), absl::StrCat("verifier at ", options_.address));
  }
  steps_.RetryAtOnce();
  return wire::Decode(info);
}

absl::StatusOr<proto::VerifierReply> RemoteVerifier::Call(proto::VerifierRequest request) {
  ASSIGN_OR_RETURN(proto::VerifierReply reply,
                   steps_.Call(std::move(request), options_.call_timeout));
  RETURN_IF_ERROR(wire::Decode(reply.status()));
  return reply;
}

absl::Status RemoteVerifier::Open(SequenceId sequence, const SamplingParams& sampling) {
  proto::VerifierRequest request;
  wire::Encode(sequence, *request.mutable_open()->mutable_sequence());
  wire::Encode(sampling, *request.mutable_open()->mutable_sampling());
  return Call(std::move(request)).status();
}

absl::StatusOr<int> RemoteVerifier::ReusePrefix(const PrefixItem& item) {
  proto::VerifierRequest request;
  wire::Encode(item, *request.mutable_reuse_prefix());
  ASSIGN_OR_RETURN(const proto::VerifierReply reply, Call(std::move(request)));
  return reply.reused_tokens();
}

absl::StatusOr<VerifyResult> RemoteVerifier::Verify(const Forest& forest,
                                                    absl::Span<const PrefillItem> prompts) {
  proto::VerifierRequest request;
  request.set_traceparent(FormatTraceparent(CurrentTrace()));
  wire::Encode(forest, prompts, *request.mutable_verify());
  ASSIGN_OR_RETURN(const proto::VerifierReply reply, Call(std::move(request)));
  VerifyResult result = wire::DecodeVerifyResult(reply);
  if (result.outcomes.size() != forest.size() || result.prompts.size() != prompts.size()) {
    return absl::InternalError(absl::StrCat("the verifier at ", options_.address, " returned ",
                                            result.outcomes.size(), " outcomes for ", forest.size(),
                                            " trees, and ", result.prompts.size(), " statuses for ",
                                            prompts.size(), " prompts"));
  }
  return result;
}

void RemoteVerifier::Close(SequenceId sequence) {
  // If the stream is gone, the verifier has already closed the sequence.
  proto::VerifierRequest request;
  wire::Encode(sequence, *request.mutable_close()->mutable_sequence());
  steps_.Post(std::move(request), kCloseTimeout);
}

}  // namespace bastion
