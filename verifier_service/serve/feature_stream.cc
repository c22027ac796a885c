#include "verifier_service/serve/feature_stream.h"

#include <algorithm>
#include <thread>
#include <vector>

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
    absl::MutexLock lock(&mutex_);
    gone_ = true;
  }
  reader.join();
}

void FeatureStream::ReadRequests() {
  internal::v1::FeatureRequest request;
  while (stream_->Read(&request)) {
    absl::MutexLock lock(&mutex_);
    if (request.has_follow()) {
      followed_[wire::Decode(request.follow().sequence())] = std::max(0, request.follow().first());
    } else if (request.has_unfollow()) {
      followed_.erase(wire::Decode(request.unfollow().sequence()));
    }
    store_->Touch();
  }
  absl::MutexLock lock(&mutex_);
  gone_ = true;
  store_->Touch();
}

bool FeatureStream::PushNew() {
  std::vector<std::pair<SequenceId, Position>> followed;
  {
    absl::MutexLock lock(&mutex_);
    if (gone_) return false;
    followed.assign(followed_.begin(), followed_.end());
  }
  for (auto& [sequence, next] : followed) {
    const Position from = next;
    bool over = false;
    if (!Push(sequence, next, over)) return false;
    absl::MutexLock lock(&mutex_);
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

bool FeatureStream::Push(SequenceId sequence, Position& next, bool& over) {
  for (;;) {
    internal::v1::FeatureReply reply;
    wire::Encode(sequence, *reply.mutable_sequence());
    const absl::StatusOr<int> rows = store_->Rows(sequence);
    if (rows.ok() && *rows <= next) return true;
    absl::StatusOr<Features> features = rows.status();
    if (rows.ok()) {
      const int fit = std::max<int>(1, kMaxBytesPerMessage / static_cast<int>(store_->row_bytes(sequence)));
      features = store_->Read({sequence, next, std::min(*rows - next, fit)}, absl::ZeroDuration());
    }
    reply.set_first(next);
    wire::Encode(features.status(), *reply.mutable_status());
    if (features.ok()) {
      wire::Encode(*features, carrier_, *reply.mutable_features());
      next += features->rows();
    }
    if (!stream_->Write(reply)) return false;
    if (!features.ok()) {
      over = true;
      return true;
    }
  }
}

}  // namespace bastion::verifier
