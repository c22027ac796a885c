#include "orchestrator/serve/request_stream.h"

#include <utility>

namespace bastion {

bool RequestStream::full() const {
  MutexLock lock(&mutex_);
  return deltas_.size() >= kCapacity;
}

bool RequestStream::cancelled() const {
  MutexLock lock(&mutex_);
  return cancelled_;
}

void RequestStream::Push(OutputDelta delta) {
  MutexLock lock(&mutex_);
  deltas_.push_back(std::move(delta));
}

void RequestStream::Finish(absl::Status status, OutputEnd end) {
  bool abort = false;
  {
    MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    abort = !status.ok() && !cancelled_ && deltas_.size() >= kCapacity;
    if (abort) deltas_.clear();
    status_ = std::move(status);
    end_ = std::move(end);
  }
  if (abort && abort_) abort_();
}

RequestStream::Event RequestStream::Next(absl::Duration patience, OutputDelta& delta) {
  MutexLock lock(&mutex_);
  const auto ready = [this] {
    mutex_.AssertHeld();
    return !deltas_.empty() || finished_;
  };
  if (!mutex_.AwaitWithTimeout(ready, patience)) return Event::kNothing;
  if (deltas_.empty()) return Event::kEnd;
  delta = std::move(deltas_.front());
  deltas_.pop_front();
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
