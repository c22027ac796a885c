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

bool RequestStream::cancelled() const {
  MutexLock lock(&mutex_);
  return cancelled_;
}

void RequestStream::Push(OutputDelta delta) {
  MutexLock lock(&mutex_);
  pending_.text += delta.text;
  Append(std::move(delta.tokens), pending_.tokens);
  Append(std::move(delta.logprobs), pending_.logprobs);
  Append(std::move(delta.cycles), pending_.cycles);
}

void RequestStream::Finish(absl::Status status, OutputEnd end) {
  bool abort = false;
  {
    MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    abort = !status.ok() && !cancelled_ && IsFull();
    if (abort) pending_ = {};
    status_ = std::move(status);
    end_ = std::move(end);
  }
  if (abort && abort_) abort_();
}

RequestStream::Event RequestStream::Next(absl::Duration patience, OutputDelta& delta) {
  MutexLock lock(&mutex_);
  const auto urgent = [this] {
    mutex_.AssertHeld();
    return finished_ || IsFull();
  };
  const auto ready = [this] {
    mutex_.AssertHeld();
    return finished_ || !pending_.cycles.empty();
  };
  const absl::Duration pause = std::max(next_ - absl::Now(), absl::ZeroDuration());
  const bool early = !mutex_.AwaitWithTimeout(urgent, std::min(pause, patience));
  if (early && pause > patience) return Event::kNothing;
  if (!mutex_.AwaitWithTimeout(ready, patience - pause)) return Event::kNothing;
  if (pending_.cycles.empty()) return Event::kEnd;
  delta = std::exchange(pending_, {});
  next_ = absl::Now() + interval_;
  return Event::kDelta;
}

void RequestStream::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
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
