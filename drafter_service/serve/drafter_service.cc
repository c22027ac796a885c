#include "drafter_service/serve/drafter_service.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/guarded.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

namespace bastion::drafter {
namespace {

// Holds `mutex` during its lifetime. Counts in `waiting` while it waits, so that the catch-up
// thread does not take the lock again first.
class ABSL_SCOPED_LOCKABLE CountedLock {
 public:
  CountedLock(Mutex* mutex, std::atomic<int>* waiting) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    ++*waiting;
    mutex->Lock();
    --*waiting;
  }
  ~CountedLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  CountedLock(const CountedLock&) = delete;
  CountedLock& operator=(const CountedLock&) = delete;

 private:
  Mutex* const mutex_;
};

absl::Status CheckSize(const proto::DrafterRequest::Expand& request) {
  int64_t paths = 0;
  for (const auto& frontier : request.frontiers()) paths += frontier.paths_size();
  if (request.frontiers_size() <= DrafterService::kMaxFrontiers &&
      paths <= DrafterService::kMaxPaths) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the call has ", request.frontiers_size(),
                                                 " frontiers with ", paths, " paths; at most ",
                                                 DrafterService::kMaxFrontiers, " frontiers and ",
                                                 DrafterService::kMaxPaths, " paths are allowed"));
}

}  // namespace

DrafterService::~DrafterService() {
  {
    CountedLock lock(&mutex_, &waiting_);
    stopping_ = true;
  }
  catch_up_.join();
}

grpc::Status DrafterService::GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                                     proto::DrafterInfo* reply) {
  DrafterInfo info = engine_->info();
  info.features = route_();
  return shell_.GetInfo(*context, Right::kDraft, info, *reply);
}

grpc::Status DrafterService::Steps(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) {
  return shell_.Stream<proto::DrafterReply, proto::DrafterRequest>(
      context, Right::kDraft, stream, [this](Stream& messages) { return Serve(messages); });
}

grpc::Status DrafterService::Attach(grpc::ServerContext* context,
                                    const proto::AttachRequest* request,
                                    proto::AttachReply* reply) {
  return shell_.Attach<proto::DrafterReply, proto::DrafterRequest>(
      {context, request, reply}, Right::kDraft, proto::AttachRequest::STREAM_STEPS,
      [this](Stream& messages) { return Serve(messages); });
}

absl::Status DrafterService::Serve(Stream& stream) {
  Client client(this, &stream.carrier());
  shell_.ServeSteps<proto::DrafterReply, proto::DrafterRequest>(
      stream, [&](const auto& request, absl::Duration arrived, auto& reply) {
        return Run(request, arrived, client, reply);
      });
  return absl::OkStatus();
}

void DrafterService::CloseAll(Client& client) {
  CountedLock lock(&mutex_, &waiting_);
  for (const SequenceId sequence : client.lease) Close(sequence);
}

bool DrafterService::Claim(SequenceId sequence, Client& client) {
  const auto [owner, is_new] = owners_.try_emplace(sequence.session, &client);
  if (owner->second != &client) return false;
  client.lease.insert(sequence);
  return true;
}

void DrafterService::Release(SequenceId sequence, Client& client) {
  client.lease.erase(sequence);
  const auto next = client.lease.lower_bound({sequence.session, 0});
  const bool has_epoch = next != client.lease.end() && next->session == sequence.session;
  if (!has_epoch) owners_.erase(sequence.session);
}

absl::Status DrafterService::Run(const proto::DrafterRequest& request, absl::Duration arrived,
                                 Client& client, proto::DrafterReply& reply) {
  CountedLock lock(&mutex_, &waiting_);
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
  RETURN_IF_ERROR(CheckSize(request.expand()));
  std::vector<Frontier> frontiers;
  std::vector<bool> claimed;  // One per frontier of the request.
  std::vector<bool> held;     // One per frontier of the engine: claimed before this call.
  for (const proto::DrafterRequest::Frontier& frontier : request.expand().frontiers()) {
    frontiers.push_back(wire::Decode(frontier));
    const SequenceId sequence = frontiers.back().sequence;
    const bool was_held = client.lease.contains(sequence);
    claimed.push_back(Claim(sequence, client));
    if (claimed.back()) {
      held.push_back(was_held);
    } else {
      frontiers.pop_back();
    }
  }
  const absl::StatusOr<std::vector<Draft>> drafts = engine_->Expand(frontiers);
  DropArrivals();
  if (telemetry_ != nullptr) {
    telemetry_->RecordExpand({request.traceparent(), arrived, began}, drafts.status(),
                             engine_->last_trace());
  }
  RETURN_IF_ERROR(drafts.status());
  for (size_t i = 0; i < held.size(); ++i) {
    if (!held[i] && WasRefused((*drafts)[i])) Release(frontiers[i].sequence, client);
  }
  // A session may occur twice, refused and accepted.
  for (size_t i = 0; i < held.size(); ++i) {
    if (!WasRefused((*drafts)[i])) (void)Claim(frontiers[i].sequence, client);
  }
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
  CountedLock lock(&mutex_, &waiting_);
  return engine_->live_sequences();
}

void DrafterService::FeaturesArrived(SequenceId sequence, Position committed, TokenId root) {
  {
    MutexLock lock(&arrivals_mutex_);
    arrivals_.push_back({sequence, committed, root});
  }
  if (!mutex_.TryLock()) return;
  HandleArrivals();
  mutex_.Unlock();
}

void DrafterService::DropArrivals() {
  MutexLock lock(&arrivals_mutex_);
  arrivals_.clear();
}

void DrafterService::HandleArrivals() {
  std::vector<Arrival> arrivals;
  {
    MutexLock lock(&arrivals_mutex_);
    arrivals.swap(arrivals_);
  }
  const absl::Duration began = Clock::Real().Now();
  const int before = engine_->last_trace().context_tokens;
  RunGuarded("drafting ahead", [&] {
    for (const Arrival& arrival : arrivals) {
      engine_->FeaturesArrived(arrival.sequence, arrival.committed, arrival.root);
    }
    if (telemetry_ != nullptr) {
      telemetry_->RecordArrival(began, engine_->last_trace().context_tokens - before);
    }
  });
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
  const int before = engine_->last_trace().context_tokens;
  RunGuarded("catching up", [&] {
    // The read may have followed the sequence again after it was closed.
    if (!engine_->AppendPiece(piece, std::move(features))) on_close_(piece.sequence);
    if (telemetry_ != nullptr) {
      telemetry_->RecordPiece(began, engine_->last_trace().context_tokens - before);
    }
  });
  // A call that waits reads the features itself.
  if (!stopping_ && waiting_ == 0) HandleArrivals();
}

void DrafterService::Close(SequenceId sequence) {
  engine_->Close(sequence);
  on_close_(sequence);
  owners_.erase(sequence.session);
}

}  // namespace bastion::drafter
