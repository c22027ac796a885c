#include "orchestrator/serve/request_stream.h"

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

}  // namespace

RequestStream::RequestStream(absl::Duration interval, int answers)
    : interval_(interval), pending_(answers), unfinished_(answers) {}

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
  pending.text += delta.text;
  Append(std::move(delta.tokens), pending.tokens);
  Append(std::move(delta.logprobs), pending.logprobs);
  Append(std::move(delta.cycles), pending.cycles);
  pending.detokenize += delta.detokenize;
  if (!delta.end) return;
  pending.end = std::move(delta.end);
  has_last_delta_ = true;
  --unfinished_;
}

void RequestStream::Fail(const absl::Status& error) {
  MutexLock lock(&mutex_);
  if (HasEnded()) return;
  status_ = error;
  if (canceled_ || !IsFull()) return;
  for (OutputDelta& pending : pending_) pending = {};
  waiting_cycles_ = 0;
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
  waiting_cycles_ = 0;
  has_last_delta_ = false;
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
