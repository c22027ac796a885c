#include "verifier_service/serve/feature_stream.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/wire/codec.h"

namespace bastion::verifier {
namespace {

constexpr int kMaxBytesPerMessage = 2 << 20;
// Only bounds how long a stream outlives its drafter: news comes through the store at once.
constexpr absl::Duration kPatience = absl::Milliseconds(500);

}  // namespace

void FeatureStream::Run() {
  std::thread reader([this] { ReadRequests(); });
  uint64_t seen = 0;
  while (PushNew()) seen = store_->AwaitChange(seen, kPatience);
  {
    MutexLock lock(&mutex_);
    gone_ = true;
  }
  stream_->Cancel();
  reader.join();
}

void FeatureStream::ReadRequests() {
  internal::v1::FeatureRequest request;
  while (stream_->Receive(&request, absl::InfiniteFuture()).ok()) {
    MutexLock lock(&mutex_);
    if (request.has_follow()) {
      followed_[wire::Decode(request.follow().sequence())] = std::max(0, request.follow().first());
    } else if (request.has_unfollow()) {
      followed_.erase(wire::Decode(request.unfollow().sequence()));
    }
    store_->Touch();
  }
  MutexLock lock(&mutex_);
  gone_ = true;
  store_->Touch();
}

bool FeatureStream::PushNew() {
  std::vector<std::pair<SequenceId, Position>> followed;
  {
    MutexLock lock(&mutex_);
    if (gone_) return false;
    followed.assign(followed_.begin(), followed_.end());
  }
  for (auto& [sequence, next] : followed) {
    const Position from = next;
    bool over = false;
    if (!Push(sequence, next, over)) return false;
    MutexLock lock(&mutex_);
    const auto found = followed_.find(sequence);
    // Followed anew from elsewhere, or given up, in the meantime: what was asked last counts.
    if (found == followed_.end() || found->second != from) continue;
    if (over) {
      followed_.erase(found);
    } else {
      found->second = next;
    }
  }
  return true;
}

absl::StatusOr<Features> FeatureStream::Next(SequenceId sequence, Position next) {
  ASSIGN_OR_RETURN(const int rows, store_->Rows(sequence));
  if (rows <= next) return Features();
  const auto row_bytes = static_cast<int>(store_->row_bytes(sequence));
  const int count = std::min(rows - next, std::max(1, kMaxBytesPerMessage / row_bytes));
  return store_->Read({sequence, next, count}, absl::ZeroDuration());
}

bool FeatureStream::Push(SequenceId sequence, Position& next, bool& over) {
  for (;;) {
    const absl::StatusOr<Features> features = Next(sequence, next);
    if (features.ok() && features->rows() == 0) return true;
    internal::v1::FeatureReply reply;
    wire::Encode(sequence, *reply.mutable_sequence());
    wire::Encode(features.status(), *reply.mutable_status());
    reply.set_first(next);
    if (features.ok()) {
      wire::Encode(*features, stream_->carrier(), *reply.mutable_features());
      if (features->next != kNoToken) reply.set_next(features->next);
    }
    if (!stream_->Send(reply, absl::InfiniteFuture()).ok()) return false;
    if (!features.ok()) {
      over = true;
      return true;
    }
    next += features->rows();
  }
}

}  // namespace bastion::verifier
