#include "drafter_service/serve/drafter_service.h"

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/protocol.h"

namespace bastion::drafter {

grpc::Status DrafterService::GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                                     proto::DrafterInfo* reply) {
  if (const absl::Status spoken = wire::CheckProtocol(*context); !spoken.ok()) {
    return wire::ToGrpc(spoken);
  }
  wire::Encode(engine_->info(), *reply);
  return grpc::Status::OK;
}

grpc::Status DrafterService::Steps(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) {
  if (const absl::Status spoken = wire::CheckProtocol(*context); !spoken.ok()) {
    return wire::ToGrpc(spoken);
  }
  Lease lease;
  proto::DrafterRequest request;
  while (stream->Read(&request)) {
    proto::DrafterReply reply;
    Step(request, lease, reply);
    if (!stream->Write(reply)) break;
  }
  MutexLock lock(&mutex_);
  for (const SequenceId sequence : lease) Close(sequence);
  return grpc::Status::OK;
}

void DrafterService::Step(const proto::DrafterRequest& request, Lease& lease,
                          proto::DrafterReply& reply) {
  reply.set_step(request.step());
  MutexLock lock(&mutex_);
  absl::Status status;
  switch (request.call_case()) {
    case proto::DrafterRequest::kExpand:
      status = Expand(request.expand(), lease, reply);
      break;
    case proto::DrafterRequest::kClose:
      Close(wire::Decode(request.close().sequence()));
      lease.erase(wire::Decode(request.close().sequence()));
      break;
    default:
      status = absl::UnimplementedError("a step without a call this drafter knows");
  }
  wire::Encode(status, *reply.mutable_status());
}

absl::Status DrafterService::Expand(const proto::DrafterRequest::Expand& request, Lease& lease,
                                    proto::DrafterReply& reply) {
  std::vector<Frontier> frontiers;
  for (const proto::DrafterRequest::Frontier& frontier : request.frontiers()) {
    frontiers.push_back(wire::Decode(frontier));
    lease.insert(frontiers.back().sequence);
  }
  ASSIGN_OR_RETURN(const std::vector<Draft> drafts, engine_->Expand(frontiers));
  for (const Draft& draft : drafts) wire::Encode(draft, carrier_, *reply.add_drafts());
  return absl::OkStatus();
}

void DrafterService::FeaturesArrived(SequenceId sequence, Position committed, TokenId root) {
  if (!mutex_.TryLock()) return;
  engine_->FeaturesArrived(sequence, committed, root);
  mutex_.Unlock();
}

void DrafterService::Close(SequenceId sequence) {
  engine_->Close(sequence);
  on_close_(sequence);
}

}  // namespace bastion::drafter
