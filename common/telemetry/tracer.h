// Tracer: hands finished spans to a sink in the background. The queue is bounded. A sink that
// fails, hangs or is slow loses spans, which are counted, and never delays the threads that record
// them. Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_TRACER_H_
#define BASTION_COMMON_TELEMETRY_TRACER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/telemetry/sampler.h"
#include "common/telemetry/span.h"

namespace bastion {

// Where spans go. Used by the tracer's thread.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Returns when the spans have arrived, or cannot.
  [[nodiscard]] virtual absl::Status Export(absl::Span<const Span> spans) = 0;
};

struct TracerOptions {
  Sampler sampler = {};
  size_t queue = 2048;                         // Spans. Further ones are dropped.
  size_t batch = 512;                          // Spans of an export.
  absl::Duration interval = absl::Seconds(5);  // Between exports of smaller batches.
  bool detail = false;                         // Stages are spans of their own.
};

// Numbers of spans since the start.
struct SpanCounts {
  int64_t exported = 0;
  int64_t dropped = 0;  // The queue was full.
  int64_t failed = 0;   // The export failed.
};

class Tracer {
 public:
  Tracer(const TracerOptions& options, std::unique_ptr<SpanSink> sink);
  // Exports the remaining spans, once.
  ~Tracer();

  // The context of a new span below `parent`, or of a new trace.
  [[nodiscard]] TraceContext Begin(const std::optional<TraceContext>& parent) const {
    return options_.sampler.Begin(parent);
  }
  [[nodiscard]] bool detail() const { return options_.detail; }

  // Queues finished spans. Those of traces that are not sampled are ignored.
  void Record(Span span) ABSL_LOCKS_EXCLUDED(mutex_);
  void Record(std::vector<Span> spans) ABSL_LOCKS_EXCLUDED(mutex_);

  [[nodiscard]] SpanCounts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Adds a span to the queue or drops it.
  void Add(Span span) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The loop of the thread.
  void Main() ABSL_LOCKS_EXCLUDED(mutex_);
  // Exports spans, and counts them.
  void Export(const std::vector<Span>& spans) ABSL_LOCKS_EXCLUDED(mutex_);

  const TracerOptions options_;
  const std::unique_ptr<SpanSink> sink_;
  mutable Mutex mutex_;
  std::vector<Span> queue_ ABSL_GUARDED_BY(mutex_);
  SpanCounts counts_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);  // The last export's. For the log.
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_TRACER_H_
