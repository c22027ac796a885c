#include "drafter_service/serve/drafter_service.h"

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/protocol.h"

namespace bastion::drafter {

grpc::Status DrafterService::GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                                     proto::DrafterInfo* reply) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kDraft); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  wire::Encode(engine_->info(), *reply);
  return grpc::Status::OK;
}

grpc::Status DrafterService::Steps(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kDraft); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  wire::GrpcServerStream<proto::DrafterReply, proto::DrafterRequest> steps(context, stream);
  Serve(steps);
  return grpc::Status::OK;
}

grpc::Status DrafterService::Attach(grpc::ServerContext* context,
                                    const proto::AttachRequest* request,
                                    proto::AttachReply* reply) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kDraft); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  if (attach_ == nullptr || request->stream() != proto::AttachRequest::STREAM_STEPS) {
    return {grpc::StatusCode::UNIMPLEMENTED, "shared memory is off; set --shared_memory"};
  }
  const auto serve = [this](std::shared_ptr<wire::SharedChannel> channel) {
    wire::SharedStream<proto::DrafterReply, proto::DrafterRequest> steps(std::move(channel));
    Serve(steps);
    return absl::OkStatus();
  };
  return wire::ToGrpc(attach_->Offer(*request, serve, *reply));
}

void DrafterService::Serve(Stream& stream) {
  Client client = {{}, &stream.carrier()};
  proto::DrafterRequest request;
  while (stream.Receive(&request, absl::InfiniteFuture()).ok()) {
    proto::DrafterReply reply;
    Step(request, client, reply);
    if (!stream.Send(reply, absl::InfiniteFuture()).ok()) break;
  }
  MutexLock lock(&mutex_);
  for (const SequenceId sequence : client.lease) Close(sequence);
}

void DrafterService::Step(const proto::DrafterRequest& request, Client& client,
                          proto::DrafterReply& reply) {
  reply.set_step(request.step());
  const absl::Duration arrived = Clock::Real().Now();
  MutexLock lock(&mutex_);
  absl::Status status;
  switch (request.call_case()) {
    case proto::DrafterRequest::kExpand:
      status = Expand(request, arrived, client, reply);
      break;
    case proto::DrafterRequest::kClose:
      Close(wire::Decode(request.close().sequence()));
      client.lease.erase(wire::Decode(request.close().sequence()));
      break;
    default:
      status = absl::UnimplementedError("the step contains no call that this drafter supports");
  }
  wire::Encode(status, *reply.mutable_status());
}

absl::Status DrafterService::Expand(const proto::DrafterRequest& request, absl::Duration arrived,
                                    Client& client, proto::DrafterReply& reply) {
  const absl::Duration began = Clock::Real().Now();
  std::vector<Frontier> frontiers;
  for (const proto::DrafterRequest::Frontier& frontier : request.expand().frontiers()) {
    frontiers.push_back(wire::Decode(frontier));
    client.lease.insert(frontiers.back().sequence);
  }
  const absl::StatusOr<std::vector<Draft>> drafts = engine_->Expand(frontiers);
  if (telemetry_ != nullptr) {
    telemetry_->RecordExpand({request.traceparent(), arrived, began}, drafts.status(),
                             engine_->last_trace());
  }
  RETURN_IF_ERROR(drafts.status());
  DraftTrace trace = engine_->last_trace();
  trace.queue = began - arrived;
  wire::Encode(trace, *reply.mutable_trace());
  for (const Draft& draft : *drafts) wire::Encode(draft, *client.carrier, *reply.add_drafts());
  return absl::OkStatus();
}

int DrafterService::live_sequences() {
  MutexLock lock(&mutex_);
  return engine_->live_sequences();
}

void DrafterService::FeaturesArrived(SequenceId sequence, Position committed, TokenId root) {
  if (!mutex_.TryLock()) return;
  const absl::Duration began = Clock::Real().Now();
  engine_->FeaturesArrived(sequence, committed, root);
  if (telemetry_ != nullptr) telemetry_->RecordArrival(began);
  mutex_.Unlock();
}

void DrafterService::Close(SequenceId sequence) {
  engine_->Close(sequence);
  on_close_(sequence);
}

}  // namespace bastion::drafter
