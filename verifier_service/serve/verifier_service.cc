#include "verifier_service/serve/verifier_service.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "verifier_service/features/feature_pusher.h"

namespace bastion::verifier {

grpc::Status VerifierService::GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                                      proto::TargetInfo* reply) {
  return shell_.GetInfo(*context, Right::kVerify, engine_->info(), *reply);
}

grpc::Status VerifierService::Steps(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>* stream) {
  return shell_.Stream<proto::VerifierReply, proto::VerifierRequest>(
      context, Right::kVerify, stream,
      [this](StepMessages& messages) { return ServeSteps(messages); });
}

grpc::Status VerifierService::Features(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::FeatureReply, proto::FeatureRequest>* stream) {
  return shell_.Stream<proto::FeatureReply, proto::FeatureRequest>(
      context, Right::kFeatures, stream,
      [this](FeatureMessages& messages) { return ServeFeatures(messages, {}); });
}

grpc::Status VerifierService::Attach(grpc::ServerContext* context,
                                     const proto::AttachRequest* request,
                                     proto::AttachReply* reply) {
  const wire::StageShell::AttachCall call = {context, request, reply};
  if (request->stream() != proto::AttachRequest::STREAM_FEATURES) {
    return shell_.Attach<proto::VerifierReply, proto::VerifierRequest>(
        call, Right::kVerify, proto::AttachRequest::STREAM_STEPS,
        [this](StepMessages& messages) { return ServeSteps(messages); });
  }
  const FeaturePath path = PathFor(*request);
  return shell_.Attach<proto::FeatureReply, proto::FeatureRequest>(
      call, Right::kFeatures, proto::AttachRequest::STREAM_FEATURES,
      [this, path](FeatureMessages& messages) { return ServeFeatures(messages, path); }, path.ring);
}

VerifierService::FeaturePath VerifierService::PathFor(const proto::AttachRequest& request) const {
  FeaturePath path = {.carrier = "shared memory"};
  auto ring = engine_->feature_ring();
  if (ring == nullptr || !request.has_device()) return path;
  const proto::DeviceReader& reader = request.device();
  const auto& peers = reader.peer_uuids();
  const bool same_gpu = reader.uuid() == ring->uuid();
  if (!same_gpu && std::find(peers.begin(), peers.end(), ring->uuid()) == peers.end()) {
    path.description = "as bytes, because the drafter's GPU cannot read the memory of this one";
  } else if (reader.dtype() != wire::FeatureDType(engine_->features().type())) {
    path.description = "as bytes, because the drafter reads another type from GPU memory";
  } else {
    path.ring = std::move(ring);
    path.description = same_gpu ? "in GPU memory" : "in GPU memory, which the drafter's GPU reads";
  }
  return path;
}

absl::Status VerifierService::ServeSteps(StepMessages& stream) {
  Lease lease(this);
  shell_.ServeSteps<proto::VerifierReply, proto::VerifierRequest>(
      stream, [&](const auto& request, absl::Duration arrived, auto& reply) {
        return Run(request, arrived, lease, reply);
      });
  return absl::OkStatus();
}

void VerifierService::CloseAll(Lease& lease) {
  MutexLock lock(&mutex_);
  for (const SequenceId sequence : lease.sequences) {
    engine_->Close(sequence);
    owners_.erase(sequence.session);
  }
}

void VerifierService::Close(SequenceId sequence, Lease& lease) {
  if (lease.sequences.erase(sequence) == 0) return;
  engine_->Close(sequence);
  owners_.erase(sequence.session);
}

absl::Status VerifierService::CheckOwner(SequenceId sequence, const Lease& lease) const {
  const auto found = owners_.find(sequence.session);
  if (found == owners_.end() || found->second.lease == &lease) return absl::OkStatus();
  return absl::NotFoundError("a sequence of this call was not opened by this stream");
}

absl::Status VerifierService::Subscribe(const std::vector<int>& layers) {
  MutexLock lock(&mutex_);
  if (subscribers_ > 0 && layers != layers_) {
    return absl::FailedPreconditionError(
        "a drafter that reads other layers is connected; stop it before connecting another one");
  }
  RETURN_IF_ERROR(engine_->SetFeatureLayers(layers));
  layers_ = layers;
  ++subscribers_;
  return absl::OkStatus();
}

void VerifierService::Unsubscribe() {
  MutexLock lock(&mutex_);
  --subscribers_;
}

absl::Status VerifierService::ServeFeatures(FeatureMessages& stream, FeaturePath path) {
  proto::FeatureRequest first;
  if (!stream.Receive(&first, absl::InfiniteFuture()).ok()) return absl::OkStatus();
  if (!first.has_subscribe()) {
    return absl::InvalidArgumentError("the first message of a feature stream must be Subscribe");
  }
  const auto& layers = first.subscribe().layers();
  RETURN_IF_ERROR(Subscribe({layers.begin(), layers.end()}));
  const auto unsubscribe = absl::MakeCleanup([this] { Unsubscribe(); });
  // A drafter that could not map the ring leaves device_memory unset.
  if (path.ring != nullptr && !first.subscribe().device_memory()) {
    path.ring = nullptr;
    path.description = "as bytes, because the drafter could not map this GPU's memory";
  }
  LOG(INFO) << "drafter connected: features " << path.description << ", over " << path.carrier;
  FeaturePusher(&engine_->features(), &stream, path.ring.get()).Run();
  return absl::OkStatus();
}

absl::Status VerifierService::Run(const proto::VerifierRequest& request, absl::Duration arrived,
                                  Lease& lease, proto::VerifierReply& reply) {
  MutexLock lock(&mutex_);
  switch (request.call_case()) {
    case proto::VerifierRequest::kOpen:
      return Open(request.open(), lease);
    case proto::VerifierRequest::kReusePrefix:
      return ReusePrefix(request.reuse_prefix(), lease, reply);
    case proto::VerifierRequest::kVerify:
      return Verify(request, arrived, lease, reply);
    case proto::VerifierRequest::kClose:
      Close(wire::Decode(request.close().sequence()), lease);
      return absl::OkStatus();
    default:
      return absl::UnimplementedError("the step contains no call that this verifier supports");
  }
}

absl::Status VerifierService::Open(const proto::VerifierRequest::Open& request, Lease& lease) {
  const SequenceId sequence = wire::Decode(request.sequence());
  ASSIGN_OR_RETURN(const SamplingParams sampling, wire::Decode(request.sampling()));
  const auto found = owners_.find(sequence.session);
  const bool taken_over =
      found != owners_.end() && !request.owner().empty() && found->second.secret == request.owner();
  if (!taken_over) {
    RETURN_IF_ERROR(CheckOwner(sequence, lease));
  }
  const bool replaces_own = found != owners_.end() && found->second.lease == &lease;
  if (max_stream_sequences_ > 0 && lease.sequences.size() >= max_stream_sequences_ &&
      !replaces_own) {
    return absl::ResourceExhaustedError(absl::StrCat(
        max_stream_sequences_, " sequences of this stream are open; raise --max_stream_sequences"));
  }
  RETURN_IF_ERROR(engine_->Open(sequence, sampling));
  // The engine has closed the earlier epoch.
  if (found != owners_.end()) found->second.lease->sequences.erase(found->second.sequence);
  lease.sequences.insert(sequence);
  owners_[sequence.session] = {&lease, sequence, request.owner()};
  return absl::OkStatus();
}

absl::Status VerifierService::ReusePrefix(const proto::VerifierRequest::ReusePrefix& request,
                                          const Lease& lease, proto::VerifierReply& reply) {
  const PrefixItem item = wire::Decode(request);
  RETURN_IF_ERROR(CheckOwner(item.sequence, lease));
  ASSIGN_OR_RETURN(const int tokens, engine_->ReusePrefix(item));
  reply.set_reused_tokens(tokens);
  if (telemetry_ != nullptr) telemetry_->RecordPrefix(static_cast<int>(item.tokens.size()), tokens);
  return absl::OkStatus();
}

absl::Status VerifierService::Verify(const proto::VerifierRequest& request, absl::Duration arrived,
                                     const Lease& lease, proto::VerifierReply& reply) {
  const absl::Duration began = Clock::Real().Now();
  ASSIGN_OR_RETURN(const wire::VerifyCall call, wire::Decode(request.verify()));
  for (const VerifyItem& item : call.forest) RETURN_IF_ERROR(CheckOwner(item.sequence, lease));
  for (const PrefillItem& item : call.prompts) RETURN_IF_ERROR(CheckOwner(item.sequence, lease));
  absl::StatusOr<VerifyResult> result = engine_->Verify(call.forest, call.prompts);
  if (telemetry_ != nullptr) {
    const MeasuredCall measured = {request.traceparent(), arrived, began, call.forest.size(),
                                   call.prompts.size()};
    telemetry_->RecordVerify(measured, result);
  }
  RETURN_IF_ERROR(result.status());
  result->trace.queue = began - arrived;
  wire::Encode(*result, reply);
  return absl::OkStatus();
}

EngineState VerifierService::state() {
  MutexLock lock(&mutex_);
  return {engine_->live_sequences(), engine_->free_kv_tokens(), engine_->info().kv_tokens};
}

}  // namespace bastion::verifier
