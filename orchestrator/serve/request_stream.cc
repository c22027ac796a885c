#include "orchestrator/serve/request_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace bastion {
namespace {

template <typename Item>
void Append(std::vector<Item>&& from, std::vector<Item>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

bool RequestStream::full() const {
  MutexLock lock(&mutex_);
  return IsFull();
}

bool RequestStream::canceled() const {
  MutexLock lock(&mutex_);
  return canceled_;
}

void RequestStream::Push(OutputDelta delta) {
  MutexLock lock(&mutex_);
  pending_.text += delta.text;
  Append(std::move(delta.tokens), pending_.tokens);
  Append(std::move(delta.logprobs), pending_.logprobs);
  Append(std::move(delta.cycles), pending_.cycles);
}

void RequestStream::Close(absl::Status status, OutputEnd end) {
  MutexLock lock(&mutex_);
  if (closed_) return;
  closed_ = true;
  status_ = std::move(status);
  end_ = std::move(end);
  if (status_.ok() || canceled_ || !IsFull()) return;
  pending_ = {};
  // Under the lock, so that the objects that abort_ uses live until Cancel() returns.
  if (abort_) abort_();
}

RequestStream::Event RequestStream::WaitForEvent(absl::Duration timeout, OutputDelta& delta) {
  MutexLock lock(&mutex_);
  const auto urgent = [this] {
    mutex_.AssertHeld();
    return closed_ || IsFull();
  };
  const auto ready = [this] {
    mutex_.AssertHeld();
    return closed_ || !pending_.cycles.empty();
  };
  const absl::Duration pause = std::max(next_ - absl::Now(), absl::ZeroDuration());
  const bool early = !mutex_.AwaitWithTimeout(urgent, std::min(pause, timeout));
  if (early && pause > timeout) return Event::kTimeout;
  if (!mutex_.AwaitWithTimeout(ready, timeout - pause)) return Event::kTimeout;
  if (pending_.cycles.empty()) return Event::kEnd;
  delta = std::exchange(pending_, {});
  next_ = absl::Now() + interval_;
  return Event::kDelta;
}

void RequestStream::Cancel() {
  MutexLock lock(&mutex_);
  canceled_ = true;
}

absl::Status RequestStream::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

OutputEnd RequestStream::end() const {
  MutexLock lock(&mutex_);
  return end_;
}

}  // namespace bastion
