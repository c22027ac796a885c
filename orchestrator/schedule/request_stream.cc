#include "orchestrator/schedule/request_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/clock.h"

namespace bastion {
namespace {

template <typename Item>
void Append(std::vector<Item>&& from, std::vector<Item>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Bytes of parts of a message, roughly.
constexpr size_t kTokenBytes = 5, kLogprobBytes = 32, kCycleBytes = 160, kNodeBytes = 48;

// The approximate size of the message of `delta`.
size_t MessageBytes(const OutputDelta& delta) {
  size_t bytes = delta.text.size() + delta.tokens.size() * kTokenBytes;
  for (const TokenLogprobs& token : delta.logprobs) {
    bytes += (1 + token.top.size()) * kLogprobBytes;
  }
  for (const CycleRecord& cycle : delta.cycles) {
    bytes += kCycleBytes;
    if (cycle.tree != nullptr) bytes += cycle.tree->tree.rows() * kNodeBytes;
  }
  return bytes;
}

}  // namespace

RequestStream::RequestStream(absl::Duration interval, int answers)
    : interval_(interval), pending_(answers), pending_bytes_(answers), unfinished_(answers) {}

bool RequestStream::full() const {
  MutexLock lock(&mutex_);
  return IsFull();
}

bool RequestStream::canceled() const {
  MutexLock lock(&mutex_);
  return canceled_ || !status_.ok();
}

void RequestStream::Push(OutputDelta delta) {
  MutexLock lock(&mutex_);
  if (HasEnded()) return;
  OutputDelta& pending = pending_[delta.answer];
  waiting_cycles_ += delta.cycles.size();
  pending_bytes_[delta.answer] += MessageBytes(delta);
  most_bytes_ = std::max(most_bytes_, pending_bytes_[delta.answer]);
  pending.text += delta.text;
  Append(std::move(delta.tokens), pending.tokens);
  Append(std::move(delta.logprobs), pending.logprobs);
  Append(std::move(delta.cycles), pending.cycles);
  pending.detokenize += delta.detokenize;
  if (!delta.end) return;
  pending.end = std::move(delta.end);
  has_last_delta_ = true;
  if (--unfinished_ == 0) ended_ = Clock::Real().Now();
}

void RequestStream::Fail(const absl::Status& error) {
  MutexLock lock(&mutex_);
  if (HasEnded()) return;
  status_ = error;
  ended_ = Clock::Real().Now();
  if (canceled_ || !IsFull()) return;
  for (OutputDelta& pending : pending_) pending = {};
  ForgetSizes();
  // Under the lock, so that the objects that abort_ uses live until Cancel() returns.
  if (abort_) abort_();
}

RequestStream::Event RequestStream::WaitForEvent(absl::Duration timeout, OutputDelta& delta) {
  if (taken_.empty()) {
    MutexLock lock(&mutex_);
    const auto urgent = [this] {
      mutex_.AssertHeld();
      return has_last_delta_ || HasEnded() || IsFull();
    };
    const auto ready = [this] {
      mutex_.AssertHeld();
      return waiting_cycles_ > 0 || HasEnded();
    };
    const absl::Duration pause = std::max(next_ - SteadyNow(), absl::ZeroDuration());
    const bool early = !mutex_.AwaitWithTimeout(urgent, std::min(pause, timeout));
    if (early && pause > timeout) return Event::kTimeout;
    if (!mutex_.AwaitWithTimeout(ready, timeout - pause)) return Event::kTimeout;
    if (waiting_cycles_ == 0) return Event::kEnd;
    TakeWaiting();
    next_ = SteadyNow() + interval_;
  }
  delta = std::move(taken_.front());
  taken_.pop_front();
  return Event::kDelta;
}

void RequestStream::TakeWaiting() {
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].cycles.empty()) continue;
    taken_.push_back(std::exchange(pending_[i], {}));
    taken_.back().answer = static_cast<int>(i);
  }
  ForgetSizes();
  has_last_delta_ = false;
}

void RequestStream::ForgetSizes() {
  waiting_cycles_ = most_bytes_ = 0;
  std::fill(pending_bytes_.begin(), pending_bytes_.end(), 0);
}

std::optional<absl::Duration> RequestStream::ended() const {
  MutexLock lock(&mutex_);
  return ended_;
}

void RequestStream::Cancel() {
  MutexLock lock(&mutex_);
  canceled_ = true;
}

absl::Status RequestStream::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

}  // namespace bastion
