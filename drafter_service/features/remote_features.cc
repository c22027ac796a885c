#include "drafter_service/features/remote_features.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/guarded.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/counted_stream.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/protocol.h"

namespace bastion::drafter {

namespace proto = internal::v1;

namespace {

constexpr absl::Duration kAttachTimeout = absl::Seconds(2);
// Requests hold the lock while they are sent, so a verifier that hangs must not block them.
// The pause before a stream is opened again. It doubles while the verifier refuses this drafter.
constexpr absl::Duration kRetryPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestRetryPause = absl::Seconds(2);
constexpr absl::Duration kSendTimeout = absl::Milliseconds(100);

absl::StatusOr<Features> DecodeReply(const proto::FeatureReply& reply, wire::Carrier& carrier,
                                     const std::shared_ptr<const wire::DeviceRingReader>& ring) {
  RETURN_IF_ERROR(wire::Decode(reply.status()));
  if (reply.features().has_device()) return wire::Decode(reply.features(), ring);
  return wire::Decode(reply.features(), carrier);
}

// Waits until the channel's attempt to connect has succeeded or failed. False if it has not ended
// before the deadline: a call would wait for it without limit.
bool AwaitConnectResult(grpc::Channel& channel, absl::Time deadline) {
  for (;;) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) return true;
    if (!channel.WaitForStateChange(state, wire::GrpcDeadline(deadline))) return false;
  }
}

}  // namespace

RemoteFeatures::RemoteFeatures(const std::string& address, wire::CarrierChoice carrier,
                               std::shared_ptr<const wire::Security> security,
                               absl::Duration peer_timeout)
    : address_(address),
      peer_timeout_(peer_timeout),
      channel_(address, std::move(security)),
      attacher_(address, carrier, wire::AttachRequest::STREAM_FEATURES,
                [this](auto* context, const auto& request, auto* reply) {
                  return channel_.NewStub<proto::VerifierService>()->Attach(context, request,
                                                                            reply);
                }) {}

void RemoteFeatures::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
    if (opening_ != nullptr) opening_->Cancel();
  }
  for (std::thread* thread : {&thread_, &watch_}) {
    if (thread->joinable()) thread->join();
  }
}

void RemoteFeatures::Start(std::vector<int> layers, Arrived arrived, const DeviceReader* device) {
  if (layers.empty()) return;
  layers_ = std::move(layers);
  arrived_ = std::move(arrived);
  device_ = device;
  if (device_ != nullptr) attacher_.ProposeDevice(*device_);
  thread_ = std::thread([this] { Main(); });
  watch_ = std::thread([this] { WatchStream(); });
}

void RemoteFeatures::Main() {
  const auto stopping = [this] {
    mutex_.AssertHeld();
    return stopping_;
  };
  absl::Status last;
  for (absl::Duration pause = kRetryPause;;) {
    RunGuarded("the feature stream", [this] { RunStream(); });
    absl::Status ended;
    {
      MutexLock lock(&mutex_);
      ended = ended_;
    }
    const bool refused = absl::IsInvalidArgument(ended) || absl::IsFailedPrecondition(ended);
    if (ended != last && refused) {
      LOG(ERROR) << "the verifier at " << address_ << " refused this drafter: " << ended.message();
    }
    if (absl::IsInternal(ended)) LOG(ERROR) << "features from " << address_ << ": " << ended;
    last = ended;
    pause = refused ? std::min(2 * pause, kLongestRetryPause) : kRetryPause;
    {
      MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(stopping, pause)) return;
    }
    channel_.Report(ended);
  }
}

absl::StatusOr<std::unique_ptr<RemoteFeatures::Stream>> RemoteFeatures::Open(Ring& ring,
                                                                             FeatureRoute& route) {
  const std::shared_ptr<grpc::Channel> peer = channel_.get();
  if (!AwaitConnectResult(*peer, SteadyNow() + kAttachTimeout)) {
    return absl::DeadlineExceededError(absl::StrCat("no connection to ", address_, " within ",
                                                    absl::FormatDuration(kAttachTimeout)));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<wire::SharedChannel> channel,
                   attacher_.Attach(SteadyNow() + kAttachTimeout));
  std::unique_ptr<Stream> stream;
  const bool shared = channel != nullptr;
  if (shared) {
    ring = Import(channel->TakeDevice());
    route = ring == nullptr   ? FeatureRoute::kSharedMemory
            : ring->on_peer() ? FeatureRoute::kPeerGpuMemory
                              : FeatureRoute::kGpuMemory;
    stream = std::make_unique<wire::SharedStream<proto::FeatureRequest, proto::FeatureReply>>(
        std::move(channel));
  } else {
    route = FeatureRoute::kGrpc;
    stream = std::make_unique<wire::GrpcBlockingStream<proto::FeatureRequest, proto::FeatureReply>>(
        [&](grpc::ClientContext* context) {
          return proto::VerifierService::NewStub(peer)->Features(context);
        });
  }
  return std::make_unique<wire::CountedStream<proto::FeatureRequest, proto::FeatureReply>>(
      std::move(stream), shared, &attacher_.stats());
}

RemoteFeatures::Ring RemoteFeatures::Import(std::unique_ptr<wire::DeviceRingEnds> ends) {
  if (device_ == nullptr) return nullptr;
  absl::StatusOr<Ring> ring =
      absl::NotFoundError("the verifier offers no ring in GPU memory that this GPU can read");
  const bool offered = ends != nullptr;
  if (offered) ring = wire::DeviceRingReader::Import(std::move(*ends), *device_);
  const std::string outcome =
      ring.ok() ? absl::StrCat((*ring)->on_peer() ? "are read from the memory of another GPU"
                                                  : "stay in the GPU's memory",
                               ", in a ring of ", (*ring)->capacity() >> 20, " MiB")
                : absl::StrCat("are copied through host memory (", ring.status().message(), ")");
  if (std::exchange(logged_, outcome) != outcome) {
    const std::string text = absl::StrCat("features from ", address_, " ", outcome);
    if (ring.ok() || !offered) LOG(INFO) << text;
    if (!ring.ok() && offered) LOG(WARNING) << text;
  }
  return ring.ok() ? *std::move(ring) : nullptr;
}

void RemoteFeatures::RunStream() {
  Ring ring;
  FeatureRoute route{};
  std::unique_ptr<Stream> stream;
  absl::Status ended = absl::CancelledError("it was stopped");
  const auto forget = absl::MakeCleanup([&] {
    MutexLock lock(&mutex_);
    stream_ = opening_ = nullptr;
    windows_.clear();
    ended_ = ended;
    route_ = FeatureRoute::kNone;
  });
  absl::StatusOr<std::unique_ptr<Stream>> opened = Open(ring, route);
  if (!opened.ok()) {
    ended = opened.status();
    return;
  }
  stream = *std::move(opened);
  proto::FeatureRequest subscribe;
  subscribe.mutable_subscribe()->set_device_memory(ring != nullptr);
  subscribe.mutable_subscribe()->mutable_layers()->Add(layers_.begin(), layers_.end());
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    opening_ = stream.get();
  }
  // Without the lock, because a verifier that hangs may block it until Stop() cancels the stream.
  // If the stream breaks here, Receive returns the error.
  (void)stream->Send(subscribe, absl::InfiniteFuture());
  {
    MutexLock lock(&mutex_);
    opening_ = nullptr;
    stream_ = stream.get();
    route_ = route;
    last_arrival_ = SteadyNow();
    if (stopping_) stream->Cancel();
  }
  ended = ReceiveAll(*stream, ring);
}

absl::Status RemoteFeatures::ReceiveAll(Stream& stream, const Ring& ring) {
  for (;;) {
    proto::FeatureReply reply;
    RETURN_IF_ERROR(stream.Receive(&reply, absl::InfiniteFuture()));
    RETURN_IF_ERROR(Receive(reply, DecodeReply(reply, stream.carrier(), ring)));
  }
}

absl::Status RemoteFeatures::Receive(const proto::FeatureReply& reply,
                                     absl::StatusOr<Features> features) {
  const SequenceId sequence = wire::Decode(reply.sequence());
  const int rows = features.ok() ? features->rows() : 0;
  // `first` comes from the peer. It is trusted only after Take has checked it.
  ASSIGN_OR_RETURN(const bool taken, Take(reply, std::move(features)));
  if (taken && reply.has_next()) arrived_(sequence, reply.first() + rows, reply.next());
  return absl::OkStatus();
}

absl::StatusOr<bool> RemoteFeatures::Take(const proto::FeatureReply& reply,
                                          absl::StatusOr<Features> features) {
  const SequenceId sequence = wire::Decode(reply.sequence());
  MutexLock lock(&mutex_);
  last_arrival_ = SteadyNow();
  const auto found = windows_.find(sequence);
  if (found == windows_.end() || reply.follow() != found->second.follow) return false;
  Window& window = found->second;
  window.wanted_since = absl::InfiniteFuture();
  if (!features.ok()) {
    window.status = features.status();
    return false;
  }
  if (reply.first() != window.first + window.rows) {
    window.status =
        absl::InternalError(absl::StrCat("the verifier sent features of token ", reply.first(),
                                         " after those of token ", window.first + window.rows - 1));
    return false;
  }
  if (features->rows() > window.end - reply.first()) {
    return absl::InternalError(
        absl::StrCat("the verifier sent ", features->rows(), " rows from token ", reply.first(),
                     " on of sequence ", sequence.session,
                     ", but has credit only for those before token ", window.end));
  }
  if (features->rows() > 0) {
    if (!window.pieces.empty() && (features->width != window.pieces.back().width ||
                                   features->type != window.pieces.back().type)) {
      window.status = absl::InternalError("the verifier sent rows of two widths or types");
      return false;
    }
    window.Append(*std::move(features));
  }
  if (reply.has_next() && ++window.unread > kMaxUnread) Unfollow(sequence);
  return true;
}

absl::Status RemoteFeatures::Follow(SequenceId sequence, Position first) {
  if (stream_ == nullptr) return NoStream();
  const auto found = windows_.find(sequence);
  if (found != windows_.end() && found->second.status.ok() && found->second.first <= first &&
      first <= found->second.first + found->second.rows) {
    return absl::OkStatus();
  }
  return FollowAgain(sequence, first, /*bytes_before=*/0);
}

absl::Status RemoteFeatures::FollowAgain(SequenceId sequence, Position first,
                                         Position bytes_before) {
  if (stream_ == nullptr) return NoStream();
  Window& window = windows_[sequence] = Window();
  window.first = first;
  window.end = first + kWindowRows;
  window.follow = ++follows_;
  proto::FeatureRequest request;
  wire::Encode(sequence, *request.mutable_follow()->mutable_sequence());
  request.mutable_follow()->set_first(first);
  request.mutable_follow()->set_bytes_before(bytes_before);
  request.mutable_follow()->set_number(follows_);
  request.mutable_follow()->set_end(window.end);
  if (stream_->Send(request, SteadyNow() + kSendTimeout).ok()) return absl::OkStatus();
  return absl::UnavailableError("the feature stream to the verifier broke");
}

void RemoteFeatures::Grant(SequenceId sequence, Window& window) {
  if (window.end - window.first > kWindowRows / 2) return;
  const Position end = window.first + kWindowRows;
  proto::FeatureRequest request;
  wire::Encode(sequence, *request.mutable_grant()->mutable_sequence());
  request.mutable_grant()->set_follow(window.follow);
  request.mutable_grant()->set_end(end);
  // If this fails, the next Read tries again.
  if (stream_->Send(request, SteadyNow() + kSendTimeout).ok()) window.end = end;
}

absl::Status RemoteFeatures::NoStream() const {
  return absl::UnavailableError(
      absl::StrCat("there is no feature stream to the verifier: ", ended_.message()));
}

absl::StatusOr<RemoteFeatures::Window*> RemoteFeatures::Await(const FeatureRange& range,
                                                              absl::Time deadline) {
  const auto is_ready = [&] {
    mutex_.AssertHeld();
    const auto found = windows_.find(range.sequence);
    return found == windows_.end() || !found->second.status.ok() ||
           found->second.first + found->second.rows >= range.first + range.count;
  };
  const absl::Time began = SteadyNow();
  const bool ready = mutex_.AwaitWithTimeout(is_ready, deadline - began);
  const auto found = windows_.find(range.sequence);
  if (found == windows_.end()) return NoStream();
  Window& window = found->second;
  if (!ready) {
    window.wanted_since = std::min(window.wanted_since, began);
    return absl::DeadlineExceededError("the features have not arrived yet");
  }
  RETURN_IF_ERROR(window.status);
  return &window;
}

bool RemoteFeatures::IsOverdue() const {
  const absl::Time limit = SteadyNow() - peer_timeout_;
  return stream_ != nullptr && last_arrival_ < limit &&
         std::any_of(windows_.begin(), windows_.end(),
                     [&](const auto& entry) { return entry.second.wanted_since < limit; });
}

void RemoteFeatures::WatchStream() {
  constexpr int kLooksPerTimeout = 4;
  const auto stopping = [this] {
    mutex_.AssertHeld();
    return stopping_;
  };
  MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(stopping, peer_timeout_ / kLooksPerTimeout)) {
    if (!IsOverdue()) continue;
    LOG(WARNING) << "features from " << address_ << " are overdue by more than " << peer_timeout_
                 << "; opening the stream again";
    last_arrival_ = SteadyNow();
    stream_->Cancel();
  }
}

absl::StatusOr<Features> RemoteFeatures::Read(const FeatureRange& range, absl::Duration timeout) {
  CHECK(range.count <= kWindowRows / 2);
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Follow(range.sequence, range.first));
  Window& followed = windows_.at(range.sequence);
  while (followed.first < range.first) (void)followed.Pop(range.first - followed.first);
  Grant(range.sequence, followed);
  for (;;) {
    ASSIGN_OR_RETURN(Window* const window, Await(range, deadline));
    if (window->pieces.empty()) return Features();  // An empty range.
    const Features& front = window->pieces.front();
    const bool usable = front.on_device()
                            ? range.may_be_on_device && front.device.intact()
                            : range.may_be_on_device || window->RowsAsBytes() >= range.count;
    if (usable) {
      window->unread = 0;
      Features read =
          range.may_be_on_device ? window->Pop(range.count) : window->PopBytes(range.count);
      Grant(range.sequence, *window);
      return read;
    }
    // The caller wants bytes, or the rows were overwritten.
    RETURN_IF_ERROR(FollowAgain(range.sequence, range.first, range.first + range.count));
  }
}

void RemoteFeatures::Forget(SequenceId sequence) {
  MutexLock lock(&mutex_);
  Unfollow(sequence);
}

void RemoteFeatures::Unfollow(SequenceId sequence) {
  if (windows_.erase(sequence) == 0 || stream_ == nullptr) return;
  proto::FeatureRequest request;
  wire::Encode(sequence, *request.mutable_unfollow()->mutable_sequence());
  // The receiving thread notices if the stream breaks here.
  (void)stream_->Send(request, SteadyNow() + kSendTimeout);
}

}  // namespace bastion::drafter
