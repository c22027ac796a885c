#include "orchestrator/remote/remote_verifier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/siphash.h"
#include "common/base/status.h"
#include "common/telemetry/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/open_stream.h"

namespace bastion {

namespace proto = internal::v1;

namespace {

// A secret that proves to the verifier that two streams belong to this client.
std::string MakeOwner() {
  const Bits128 secret = RandomKey();
  return std::string(reinterpret_cast<const char*>(&secret), sizeof secret);
}

// The status of a lost verifier. A stream may also end with other codes, e.g. UNKNOWN if its
// connection has delivered garbage, but its sequences are lost all the same.
absl::Status AsLoss(const absl::Status& reason) {
  if (absl::IsUnavailable(reason) || absl::IsDeadlineExceeded(reason)) return reason;
  return absl::UnavailableError(reason.ToString());
}

}  // namespace

RemoteVerifier::RemoteVerifier(const RemoteOptions& options)
    : options_(options),
      owner_(MakeOwner()),
      channel_(options.address, options.security),
      attacher_(options.address, options.carrier, wire::AttachRequest::STREAM_STEPS,
                [this](auto* context, const auto& request, auto* reply) {
                  return channel_.NewStub<proto::VerifierService>()->Attach(context, request,
                                                                            reply);
                }),
      steps_(
          absl::StrCat("the verifier at ", options.address),
          [this](absl::Time deadline) {
            return wire::OpenTimedStream<proto::VerifierRequest, proto::VerifierReply>(
                attacher_,
                [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
                  return channel_.NewStub<proto::VerifierService>()->PrepareAsyncSteps(context,
                                                                                       queue);
                },
                std::min(deadline, SteadyNow() + options_.peer_timeout));
          },
          [this] { return Watched(); }),
      watch_(absl::StrCat("the verifier at ", options.address), options.peer_timeout,
             [this](absl::Duration timeout) { return Ask(timeout); }) {}

absl::StatusOr<EngineActivity> RemoteVerifier::Ask(absl::Duration timeout) {
  grpc::ClientContext context;
  wire::AddProtocolVersion(context);
  context.set_deadline(wire::GrpcDeadline(SteadyNow() + timeout));
  proto::TargetInfo info;
  const absl::Status status =
      wire::FromGrpc(channel_.NewStub<proto::VerifierService>()->GetInfo(&context, {}, &info));
  channel_.Report(status);
  RETURN_IF_ERROR(status);
  MutexLock lock(&info_mutex_);
  info_ = wire::Decode(info);
  return wire::Decode(info.activity());
}

absl::StatusOr<TargetInfo> RemoteVerifier::Info() {
  if (const absl::Status answered = watch_.AwaitAnswer(); !answered.ok()) {
    steps_.Drop();
    watch_.RenewIfLost();
    return lost_ = answered;
  }
  RETURN_IF_ERROR(Watched());
  lost_ = absl::OkStatus();
  steps_.RetryAtOnce();
  MutexLock lock(&info_mutex_);
  return info_;
}

absl::Status RemoteVerifier::Watched() const {
  if (stopped_) return absl::UnavailableError("the service is shutting down");
  return watch_.status();
}

absl::Status RemoteVerifier::CheckAlive() {
  RETURN_IF_ERROR(lost_);
  const absl::Status alive = Watched();
  return alive.ok() ? alive : Lose(alive);
}

absl::Status RemoteVerifier::Lose(const absl::Status& reason) {
  steps_.Drop();
  unsent_closes_.clear();
  watch_.Renew();
  return lost_ = reason;
}

absl::StatusOr<proto::VerifierReply> RemoteVerifier::Call(proto::VerifierRequest request) {
  RETURN_IF_ERROR(lost_);
  RETURN_IF_ERROR(Watched());
  for (const SequenceId sequence : std::exchange(unsent_closes_, {})) Close(sequence);
  const PeerWatch::Call waiting(&watch_, request.ByteSizeLong());
  absl::StatusOr<proto::VerifierReply> reply =
      steps_.Call(std::move(request), options_.call_timeout);
  if (!reply.ok()) return Lose(AsLoss(reply.status()));
  RETURN_IF_ERROR(wire::Decode(reply->status()));
  return reply;
}

absl::Status RemoteVerifier::Open(SequenceId sequence, const SamplingParams& sampling) {
  proto::VerifierRequest request;
  wire::Encode(sequence, *request.mutable_open()->mutable_sequence());
  wire::Encode(sampling, *request.mutable_open()->mutable_sampling());
  request.mutable_open()->set_owner(owner_);
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
  if (!steps_.Post(std::move(request), kCloseTimeout)) unsent_closes_.push_back(sequence);
}

}  // namespace bastion
