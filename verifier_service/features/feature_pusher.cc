#include "verifier_service/features/feature_pusher.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/guarded.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

namespace bastion::verifier {
namespace {

constexpr size_t kMaxBytesPerMessage = 2 << 20;
// More than any drafter has sequences.
constexpr size_t kMaxFollowed = 1 << 16;
constexpr Position kNoLimit = std::numeric_limits<Position>::max();

}  // namespace

void FeaturePusher::Run() {
  std::thread reader([this] { ReadRequests(); });
  // Also if this thread throws, e.g. for lack of memory.
  const auto stop_reading = absl::MakeCleanup([&] {
    stream_->Cancel();
    reader.join();
  });
  const std::shared_ptr<void> reading = ring_ == nullptr ? nullptr : ring_->AddReader();
  const std::shared_ptr<void> listening = store_->Listen([this] { PushFromEngine(); });
  while (AwaitChange()) {
    MutexLock lock(&pushing_);
    const absl::Status pushed = PushNew(send_limit_);
    if (absl::IsDeadlineExceeded(pushed)) {
      LOG(WARNING) << "the drafter is disconnected, because it took no features for "
                   << send_limit_;
    }
    if (!pushed.ok()) break;
  }
}

void FeaturePusher::ReadRequests() {
  RunGuarded("a feature stream", [this] { FollowRequests(); });
  MutexLock lock(&mutex_);
  disconnected_ = true;
}

void FeaturePusher::FollowRequests() {
  internal::v1::FeatureRequest request;
  while (stream_->Receive(&request, absl::InfiniteFuture()).ok()) {
    if (Handle(request) <= kMaxFollowed) continue;
    LOG(ERROR) << "the drafter is disconnected, because it follows more than " << kMaxFollowed
               << " sequences";
    stream_->Cancel();  // It may not read, so that a reply waits.
    return;
  }
}

size_t FeaturePusher::Handle(const internal::v1::FeatureRequest& request) {
  MutexLock lock(&mutex_);
  if (request.has_follow()) {
    const auto& follow = request.follow();
    followed_[wire::Decode(follow.sequence())] = {std::max(0, follow.first()),
                                                  follow.bytes_before(), follow.number(),
                                                  follow.end() == 0 ? kNoLimit : follow.end()};
    changed_ = true;
  } else if (request.has_grant()) {
    const auto& grant = request.grant();
    const auto found = followed_.find(wire::Decode(grant.sequence()));
    if (found != followed_.end() && found->second.follow == grant.follow()) {
      found->second.end = std::max(found->second.end, grant.end());
      changed_ = true;
    }
  } else if (request.has_unfollow()) {
    followed_.erase(wire::Decode(request.unfollow().sequence()));
  }
  return followed_.size();
}

void FeaturePusher::PushFromEngine() {
  if (stream_->supports_deadlines() && pushing_.TryLock()) {
    absl::Status pushed;
    try {
      pushed = PushNew(absl::ZeroDuration());
    } catch (const std::exception& error) {  // E.g. for lack of memory. Run() tries again.
      pushed = absl::InternalError(error.what());
    }
    pushing_.Unlock();
    if (pushed.ok()) return;
  }
  MutexLock lock(&mutex_);
  changed_ = true;
}

bool FeaturePusher::AwaitChange() {
  MutexLock lock(&mutex_);
  const auto has_change = [this] {
    mutex_.AssertHeld();
    return changed_ || disconnected_;
  };
  while (!mutex_.AwaitWithTimeout(has_change, absl::InfiniteDuration())) {
  }
  changed_ = false;
  return !disconnected_;
}

absl::Status FeaturePusher::PushNew(absl::Duration patience) {
  std::vector<std::pair<SequenceId, Place>> followed;
  {
    MutexLock lock(&mutex_);
    followed.assign(followed_.begin(), followed_.end());
  }
  for (auto& [sequence, place] : followed) {
    const Place from = place;
    bool ended = false;
    const absl::Status pushed = Push(sequence, patience, place, ended);
    MutexLock lock(&mutex_);
    const auto found = followed_.find(sequence);
    // The drafter may meanwhile have followed the sequence from another row or unfollowed it. Its
    // last request wins.
    if (found != followed_.end() && found->second.Matches(from)) {
      found->second.next = place.next;
      if (ended) followed_.erase(found);
    }
    RETURN_IF_ERROR(pushed);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> FeaturePusher::Fill(SequenceId sequence, const Place& place,
                                        internal::v1::FeatureReply& reply) {
  if (ring_ != nullptr && place.next >= place.bytes_before) {
    ASSIGN_OR_RETURN(const FeatureStore::Located located,
                     store_->Locate(sequence, place.next, place.end));
    if (located.rows > 0) {
      const auto shape = wire::FeatureShape(located.type, located.rows, located.width);
      wire::SetShape(shape, *reply.mutable_features());
      reply.mutable_features()->mutable_device()->set_position(located.position);
      reply.mutable_features()->mutable_device()->set_bytes(shape.bytes());
      if (located.next != kNoToken) reply.set_next(located.next);
      return located.rows;
    }
  }
  ASSIGN_OR_RETURN(const FeatureStore::Copied copied,
                   store_->Copy(sequence, place.next, place.end, kMaxBytesPerMessage,
                                [&](DType type, int rows, int width) {
                                  return stream_->carrier().Reserve(
                                      wire::FeatureShape(type, rows, width),
                                      *reply.mutable_features());
                                }));
  if (copied.next != kNoToken) reply.set_next(copied.next);
  return copied.rows;
}

absl::Status FeaturePusher::Push(SequenceId sequence, absl::Duration patience, Place& place,
                                 bool& ended) {
  for (;;) {
    internal::v1::FeatureReply reply;
    const absl::StatusOr<int> rows = Fill(sequence, place, reply);
    if (rows.ok() && *rows == 0) return absl::OkStatus();
    wire::Encode(sequence, *reply.mutable_sequence());
    wire::Encode(rows.status(), *reply.mutable_status());
    reply.set_first(place.next);
    reply.set_follow(place.follow);
    RETURN_IF_ERROR(stream_->Send(reply, SteadyNow() + patience));
    ended = !rows.ok();
    if (ended) return absl::OkStatus();
    place.next += *rows;
  }
}

}  // namespace bastion::verifier
