#include "common/telemetry/tracer.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/guarded.h"

namespace bastion {

Tracer::Tracer(const TracerOptions& options, std::unique_ptr<SpanSink> sink)
    : options_(options), sink_(std::move(sink)), thread_([this] { Main(); }) {}

Tracer::~Tracer() {
  {
    MutexLock lock(&mutex_);
    stops_ = true;
  }
  thread_.join();
}

void Tracer::Record(Span span) {
  if (!span.context.sampled) return;
  MutexLock lock(&mutex_);
  Add(std::move(span));
}

void Tracer::Record(std::vector<Span> spans) {
  MutexLock lock(&mutex_);
  for (Span& span : spans) {
    if (span.context.sampled) Add(std::move(span));
  }
}

void Tracer::Add(Span span) {
  if (queue_.size() < options_.queue) {
    queue_.push_back(std::move(span));
  } else {
    ++counts_.dropped;
  }
}

SpanCounts Tracer::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

void Tracer::Main() {
  for (bool stops = false; !stops;) {
    std::vector<Span> spans;
    {
      const auto due = [this] {
        mutex_.AssertHeld();
        return stops_ || queue_.size() >= options_.batch;
      };
      MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(due, options_.interval);
      stops = stops_;
      spans = std::exchange(queue_, {});
    }
    // A sink may use libraries that throw.
    RunGuarded("the export of traces", [&] { Export(spans); });
  }
}

void Tracer::Export(const std::vector<Span>& spans) {
  for (size_t from = 0; from < spans.size();) {
    size_t count = std::min(options_.batch, spans.size() - from);
    const absl::Status exported = sink_->Export(absl::MakeConstSpan(spans).subspan(from, count));
    // If the sink hangs, one batch has waited long enough.
    if (!exported.ok()) count = spans.size() - from;
    from += count;
    MutexLock lock(&mutex_);
    (exported.ok() ? counts_.exported : counts_.failed) += static_cast<int64_t>(count);
    if (!exported.ok() && exported != last_error_) {
      LOG(WARNING) << "cannot export traces: " << exported;
    }
    last_error_ = exported;
  }
}

}  // namespace bastion
