// FakeSpanSink: keeps the spans that a tracer exports, or fails, or hangs. Header-only.
#ifndef BASTION_TESTS_SUPPORT_FAKE_SPAN_SINK_H_
#define BASTION_TESTS_SUPPORT_FAKE_SPAN_SINK_H_

#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/telemetry/tracer.h"

namespace bastion::testing {

// The attribute of `span` with this name; null if there is none.
inline const SpanAttribute* FindAttribute(const Span& span, const std::string& name) {
  for (const auto& [other, value] : span.attributes) {
    if (other == name) return &value;
  }
  return nullptr;
}

// What a FakeSpanSink received, and what it should do. Outlives the sink. Thread-safe.
class SpanLog {
 public:
  absl::Status Export(absl::Span<const Span> spans) {
    const auto may_go_on = [this] { return !held_; };
    MutexLock lock(&mutex_);
    waits_ = true;
    mutex_.AwaitWithTimeout(may_go_on, absl::Seconds(60));
    waits_ = false;
    if (error_.ok()) spans_.insert(spans_.end(), spans.begin(), spans.end());
    return error_;
  }
  std::vector<Span> spans() {
    MutexLock lock(&mutex_);
    return spans_;
  }
  // Returns the spans, and forgets them.
  std::vector<Span> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(spans_, {});
  }
  // While held, exports hang.
  void Hold(bool held) {
    MutexLock lock(&mutex_);
    held_ = held;
  }
  bool AwaitHeldExport() {
    const auto waits = [this] { return waits_; };
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(waits, absl::Seconds(20));
  }
  // Later exports return `error`.
  void Fail(const absl::Status& error) {
    MutexLock lock(&mutex_);
    error_ = error;
  }

 private:
  Mutex mutex_;
  std::vector<Span> spans_;
  absl::Status error_;
  bool held_ = false, waits_ = false;
};

class FakeSpanSink final : public SpanSink {
 public:
  explicit FakeSpanSink(SpanLog* log) : log_(*log) {}
  absl::Status Export(absl::Span<const Span> spans) override { return log_.Export(spans); }

 private:
  SpanLog& log_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_FAKE_SPAN_SINK_H_
