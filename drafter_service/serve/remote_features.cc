#include "drafter_service/serve/remote_features.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/protocol.h"

namespace bastion::drafter {

namespace proto = internal::v1;

namespace {

constexpr absl::Duration kAttachPatience = absl::Seconds(2);

absl::StatusOr<Features> DecodeReply(const proto::FeatureReply& reply, wire::Carrier& carrier) {
  RETURN_IF_ERROR(wire::Decode(reply.status()));
  return wire::Decode(reply.features(), carrier);
}

}  // namespace

RemoteFeatures::RemoteFeatures(const std::string& address, wire::CarrierChoice carrier)
    : address_(address),
      stub_(proto::VerifierService::NewStub(wire::ConnectPeer(address))),
      attacher_(address, carrier, wire::AttachRequest::STREAM_FEATURES,
                [this](auto* context, const auto& request, auto* reply) {
                  return stub_->Attach(context, request, reply);
                }) {}

void RemoteFeatures::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
  }
  if (thread_.joinable()) thread_.join();
}

void RemoteFeatures::Start(std::vector<int> layers, Arrived arrived) {
  layers_ = std::move(layers);
  arrived_ = std::move(arrived);
  thread_ = std::thread([this] { Main(); });
}

void RemoteFeatures::Main() {
  for (;;) {
    RunStream();
    MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout([this] { return stopping_; }, absl::Milliseconds(200))) return;
  }
}

std::unique_ptr<RemoteFeatures::Stream> RemoteFeatures::Open() {
  if (auto channel = attacher_.Attach(absl::Now() + kAttachPatience)) {
    return std::make_unique<wire::SharedStream<proto::FeatureRequest, proto::FeatureReply>>(
        std::move(channel));
  }
  return std::make_unique<wire::GrpcPatientStream<proto::FeatureRequest, proto::FeatureReply>>(
      [this](grpc::ClientContext* context) { return stub_->Features(context); });
}

void RemoteFeatures::RunStream() {
  const std::unique_ptr<Stream> stream = Open();
  proto::FeatureRequest subscribe;
  subscribe.mutable_subscribe()->mutable_layers()->Add(layers_.begin(), layers_.end());
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    stream_ = stream.get();
    // When it breaks here, receiving says why.
    (void)stream->Send(subscribe, absl::InfiniteFuture());
  }
  const absl::Status over = ReceiveAll(*stream);
  {
    MutexLock lock(&mutex_);
    stream_ = nullptr;
    windows_.clear();
  }
  if (absl::IsInvalidArgument(over) || absl::IsFailedPrecondition(over)) {
    LOG(ERROR) << "verifier " << address_ << " refuses this drafter: " << over.message();
  }
}

absl::Status RemoteFeatures::ReceiveAll(Stream& stream) {
  for (;;) {
    proto::FeatureReply reply;
    RETURN_IF_ERROR(stream.Receive(&reply, absl::InfiniteFuture()));
    Receive(reply, stream.carrier());
  }
}

void RemoteFeatures::Receive(const proto::FeatureReply& reply, wire::Carrier& carrier) {
  const SequenceId sequence = wire::Decode(reply.sequence());
  absl::StatusOr<Features> features = DecodeReply(reply, carrier);
  const int rows = features.ok() ? features->rows() : 0;
  // Only what was taken begins where it must: `first` is the peer's word.
  if (Take(reply, std::move(features)) && reply.has_next()) {
    arrived_(sequence, reply.first() + rows, reply.next());
  }
}

bool RemoteFeatures::Take(const proto::FeatureReply& reply, absl::StatusOr<Features> features) {
  const SequenceId sequence = wire::Decode(reply.sequence());
  MutexLock lock(&mutex_);
  const auto found = windows_.find(sequence);
  if (found == windows_.end()) return false;
  Window& window = found->second;
  if (!features.ok()) {
    window.status = features.status();
    return false;
  }
  // What was on its way when the sequence was followed anew is not what was asked for.
  if (reply.first() != window.first + window.features.rows()) return false;
  if (window.features.rows() == 0) {
    window.features = *std::move(features);
  } else {
    window.features.bytes += features->bytes;
  }
  if (reply.has_next() && ++window.unread > kMostUnread) Unfollow(sequence);
  return true;
}

absl::Status RemoteFeatures::Follow(SequenceId sequence, Position first) {
  if (stream_ == nullptr) return absl::UnavailableError("no feature stream to the verifier");
  const auto found = windows_.find(sequence);
  if (found != windows_.end() && found->second.status.ok() && found->second.first <= first &&
      first <= found->second.first + found->second.features.rows()) {
    return absl::OkStatus();
  }
  windows_[sequence] = {first, {}, absl::OkStatus(), 0};
  proto::FeatureRequest request;
  wire::Encode(sequence, *request.mutable_follow()->mutable_sequence());
  request.mutable_follow()->set_first(first);
  if (stream_->Send(request, absl::InfiniteFuture()).ok()) return absl::OkStatus();
  return absl::UnavailableError("the feature stream to the verifier broke");
}

absl::StatusOr<Features> RemoteFeatures::Read(const FeatureRange& range, absl::Duration patience) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Follow(range.sequence, range.first));
  const auto decided = [&] {
    mutex_.AssertHeld();
    const auto found = windows_.find(range.sequence);
    return found == windows_.end() || !found->second.status.ok() ||
           found->second.first + found->second.features.rows() >= range.first + range.count;
  };
  if (!mutex_.AwaitWithTimeout(decided, patience)) {
    return absl::DeadlineExceededError("features have not arrived");
  }
  const auto found = windows_.find(range.sequence);
  if (found == windows_.end()) return absl::UnavailableError("the feature stream broke");
  Window& window = found->second;
  RETURN_IF_ERROR(window.status);
  const size_t row = window.features.row_bytes();
  const size_t skipped = (range.first - window.first) * row;
  std::string& bytes = window.features.bytes;
  Features read = {window.features.width, window.features.type, {}};
  if (skipped == 0 && bytes.size() == range.count * row) {
    read.bytes = std::exchange(bytes, {});
  } else {
    read.bytes = bytes.substr(skipped, range.count * row);
    bytes.erase(0, skipped + read.bytes.size());
  }
  window.first = range.first + range.count;
  window.unread = 0;
  return read;
}

void RemoteFeatures::Forget(SequenceId sequence) {
  MutexLock lock(&mutex_);
  Unfollow(sequence);
}

void RemoteFeatures::Unfollow(SequenceId sequence) {
  if (windows_.erase(sequence) == 0 || stream_ == nullptr) return;
  proto::FeatureRequest request;
  wire::Encode(sequence, *request.mutable_unfollow()->mutable_sequence());
  // A stream that breaks here is noticed by its reader.
  (void)stream_->Send(request, absl::InfiniteFuture());
}

}  // namespace bastion::drafter
