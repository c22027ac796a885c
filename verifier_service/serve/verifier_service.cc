#include "verifier_service/serve/verifier_service.h"

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/protocol.h"
#include "verifier_service/features/feature_stream.h"

namespace bastion::verifier {

grpc::Status VerifierService::GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                                      proto::TargetInfo* reply) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kVerify); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  wire::Encode(engine_->info(), *reply);
  return grpc::Status::OK;
}

grpc::Status VerifierService::Steps(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>* stream) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kVerify); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  wire::GrpcServerStream<proto::VerifierReply, proto::VerifierRequest> steps(context, stream);
  ServeSteps(steps);
  return grpc::Status::OK;
}

grpc::Status VerifierService::Features(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::FeatureReply, proto::FeatureRequest>* stream) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kFeatures);
      !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  wire::GrpcServerStream<proto::FeatureReply, proto::FeatureRequest> features(context, stream);
  return wire::ToGrpc(ServeFeatures(features, "gRPC"));
}

grpc::Status VerifierService::Attach(grpc::ServerContext* context,
                                     const proto::AttachRequest* request,
                                     proto::AttachReply* reply) {
  const bool features = request->stream() == proto::AttachRequest::STREAM_FEATURES;
  const Right right = features ? Right::kFeatures : Right::kVerify;
  if (const auto allowed = wire::CheckCaller(*context, *security_, right); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  if (attach_ == nullptr ||
      (!features && request->stream() != proto::AttachRequest::STREAM_STEPS)) {
    return {grpc::StatusCode::UNIMPLEMENTED, "shared memory is off; set --shared_memory"};
  }
  const auto ring = features ? RingFor(*request) : nullptr;
  const auto serve = [this, features, ring](std::shared_ptr<wire::SharedChannel> channel) {
    if (features) {
      wire::SharedStream<proto::FeatureReply, proto::FeatureRequest> stream(std::move(channel));
      return ServeFeatures(stream, "shared memory", ring.get());
    }
    wire::SharedStream<proto::VerifierReply, proto::VerifierRequest> stream(std::move(channel));
    ServeSteps(stream);
    return absl::OkStatus();
  };
  return wire::ToGrpc(attach_->Offer(*request, serve, *reply, ring));
}

std::shared_ptr<const wire::DeviceRingWriter> VerifierService::RingFor(
    const proto::AttachRequest& request) const {
  auto ring = engine_->feature_ring();
  if (ring == nullptr || request.device().uuid() != ring->uuid() ||
      request.device().dtype() != wire::FeatureDType(engine_->features().type())) {
    return nullptr;
  }
  return ring;
}

void VerifierService::ServeSteps(StepMessages& stream) {
  Lease lease;
  proto::VerifierRequest request;
  while (stream.Receive(&request, absl::InfiniteFuture()).ok()) {
    proto::VerifierReply reply;
    Step(request, lease, reply);
    if (!stream.Send(reply, absl::InfiniteFuture()).ok()) break;
  }
  MutexLock lock(&mutex_);
  for (const SequenceId sequence : lease) engine_->Close(sequence);
}

absl::Status VerifierService::ServeFeatures(FeatureMessages& stream, const char* carrier,
                                            const wire::DeviceRingWriter* ring) {
  proto::FeatureRequest first;
  if (!stream.Receive(&first, absl::InfiniteFuture()).ok()) return absl::OkStatus();
  if (!first.has_subscribe()) {
    return absl::InvalidArgumentError("the first message of a feature stream must be Subscribe");
  }
  {
    MutexLock lock(&mutex_);
    const auto& layers = first.subscribe().layers();
    RETURN_IF_ERROR(engine_->SetFeatureLayers({layers.begin(), layers.end()}));
  }
  // A drafter that could not map the ring leaves device_memory unset.
  if (!first.subscribe().device_memory()) ring = nullptr;
  LOG(INFO) << "drafter connected: features " << (ring != nullptr ? "in GPU memory" : "as bytes")
            << ", over " << carrier;
  FeatureStream(&engine_->features(), &stream, ring).Run();
  return absl::OkStatus();
}

void VerifierService::Step(const proto::VerifierRequest& request, Lease& lease,
                           proto::VerifierReply& reply) {
  reply.set_step(request.step());
  const absl::Duration arrived = Clock::Real().Now();
  MutexLock lock(&mutex_);
  absl::Status status;
  switch (request.call_case()) {
    case proto::VerifierRequest::kOpen:
      status = Open(request.open(), lease);
      break;
    case proto::VerifierRequest::kReusePrefix:
      status = ReusePrefix(request.reuse_prefix(), reply);
      break;
    case proto::VerifierRequest::kVerify:
      status = Verify(request, arrived, reply);
      break;
    case proto::VerifierRequest::kClose:
      engine_->Close(wire::Decode(request.close().sequence()));
      lease.erase(wire::Decode(request.close().sequence()));
      break;
    default:
      status = absl::UnimplementedError("the step contains no call that this verifier supports");
  }
  wire::Encode(status, *reply.mutable_status());
}

absl::Status VerifierService::Open(const proto::VerifierRequest::Open& request, Lease& lease) {
  const SequenceId sequence = wire::Decode(request.sequence());
  ASSIGN_OR_RETURN(const SamplingParams sampling, wire::Decode(request.sampling()));
  RETURN_IF_ERROR(engine_->Open(sequence, sampling));
  lease.insert(sequence);
  return absl::OkStatus();
}

absl::Status VerifierService::ReusePrefix(const proto::VerifierRequest::ReusePrefix& request,
                                          proto::VerifierReply& reply) {
  const PrefixItem item = wire::Decode(request);
  ASSIGN_OR_RETURN(const int tokens, engine_->ReusePrefix(item));
  reply.set_reused_tokens(tokens);
  if (telemetry_ != nullptr) telemetry_->RecordPrefix(static_cast<int>(item.tokens.size()), tokens);
  return absl::OkStatus();
}

absl::Status VerifierService::Verify(const proto::VerifierRequest& request, absl::Duration arrived,
                                     proto::VerifierReply& reply) {
  const absl::Duration began = Clock::Real().Now();
  ASSIGN_OR_RETURN(const wire::VerifyCall call, wire::Decode(request.verify()));
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
