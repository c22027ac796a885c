#include "drafter_service/serve/drafter_service.h"

#include <exception>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/protocol.h"

namespace bastion::drafter {

DrafterService::~DrafterService() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  catch_up_.join();
}

grpc::Status DrafterService::GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                                     proto::DrafterInfo* reply) {
  if (const auto allowed = wire::CheckCaller(*context, *security_, Right::kDraft); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  wire::Encode(engine_->info(), *reply);
  wire::Encode(meter_.activity(), *reply->mutable_activity());
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
  Client client(this, &stream.carrier());
  proto::DrafterRequest request;
  while (stream.Receive(&request, absl::InfiniteFuture()).ok()) {
    proto::DrafterReply reply;
    Step(request, client, reply);
    if (!stream.Send(reply, absl::InfiniteFuture()).ok()) break;
  }
}

void DrafterService::CloseAll(Client& client) {
  MutexLock lock(&mutex_);
  for (const SequenceId sequence : client.lease) Close(sequence);
}

bool DrafterService::Claim(SequenceId sequence, Client& client) {
  const auto [owner, is_new] = owners_.try_emplace(sequence.session, &client);
  if (owner->second != &client) return false;
  client.lease.insert(sequence);
  return true;
}

void DrafterService::Step(const proto::DrafterRequest& request, Client& client,
                          proto::DrafterReply& reply) {
  const absl::Duration arrived = Clock::Real().Now();
  const EngineMeter::Call call(&meter_);
  absl::Status status;
  try {
    status = Run(request, arrived, client, reply);
  } catch (const std::exception& error) {
    LOG(ERROR) << "a call failed: " << error.what();
    reply.Clear();
    status = absl::InternalError("the call failed in the drafter; see its log");
  }
  reply.set_step(request.step());
  wire::Encode(status, *reply.mutable_status());
}

absl::Status DrafterService::Run(const proto::DrafterRequest& request, absl::Duration arrived,
                                 Client& client, proto::DrafterReply& reply) {
  ++waiting_;
  MutexLock lock(&mutex_);
  --waiting_;
  switch (request.call_case()) {
    case proto::DrafterRequest::kExpand:
      return Expand(request, arrived, client, reply);
    case proto::DrafterRequest::kClose: {
      const SequenceId sequence = wire::Decode(request.close().sequence());
      if (client.lease.erase(sequence) > 0) Close(sequence);
      return absl::OkStatus();
    }
    default:
      return absl::UnimplementedError("the step contains no call that this drafter supports");
  }
}

absl::Status DrafterService::Expand(const proto::DrafterRequest& request, absl::Duration arrived,
                                    Client& client, proto::DrafterReply& reply) {
  const absl::Duration began = Clock::Real().Now();
  std::vector<Frontier> frontiers;
  std::vector<bool> claimed;  // One per frontier of the request.
  for (const proto::DrafterRequest::Frontier& frontier : request.expand().frontiers()) {
    frontiers.push_back(wire::Decode(frontier));
    claimed.push_back(Claim(frontiers.back().sequence, client));
    if (!claimed.back()) frontiers.pop_back();
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
  const Draft foreign = {{}, absl::NotFoundError("another stream drafts this sequence")};
  size_t next = 0;
  for (const bool is_own : claimed) {
    const Draft& draft = is_own ? (*drafts)[next++] : foreign;
    wire::Encode(draft, *client.carrier, *reply.add_drafts());
  }
  return absl::OkStatus();
}

int DrafterService::live_sequences() {
  MutexLock lock(&mutex_);
  return engine_->live_sequences();
}

void DrafterService::FeaturesArrived(SequenceId sequence, Position committed, TokenId root) {
  if (!mutex_.TryLock()) return;
  const absl::Duration began = Clock::Real().Now();
  try {
    engine_->FeaturesArrived(sequence, committed, root);
    if (telemetry_ != nullptr) telemetry_->RecordArrival(began);
  } catch (const std::exception& error) {
    LOG(ERROR) << "drafting ahead failed: " << error.what();
  }
  mutex_.Unlock();
}

void DrafterService::CatchUp() {
  while (const std::optional<FeatureRange> piece = AwaitPiece()) {
    AppendPiece(*piece, ReadPiece(*piece));
  }
}

std::optional<FeatureRange> DrafterService::AwaitPiece() {
  const auto may_begin = [this] {
    mutex_.AssertHeld();
    return stopping_ || (waiting_ == 0 && engine_->has_piece());
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(may_begin, absl::InfiniteDuration());
  if (stopping_) return std::nullopt;
  return engine_->NextPiece();
}

absl::StatusOr<Features> DrafterService::ReadPiece(const FeatureRange& piece) {
  try {
    return engine_->ReadPiece(piece);
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

void DrafterService::AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) {
  const auto may_begin = [this] {
    mutex_.AssertHeld();
    return stopping_ || waiting_ == 0;
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(may_begin, absl::InfiniteDuration());
  const absl::Duration began = Clock::Real().Now();
  try {
    // The read may have followed the sequence again after it was closed.
    if (!engine_->AppendPiece(piece, std::move(features))) on_close_(piece.sequence);
    if (telemetry_ != nullptr) telemetry_->RecordPiece(began);
  } catch (const std::exception& error) {
    LOG(ERROR) << "catching up failed: " << error.what();
  }
}

void DrafterService::Close(SequenceId sequence) {
  engine_->Close(sequence);
  on_close_(sequence);
  owners_.erase(sequence.session);
}

}  // namespace bastion::drafter
