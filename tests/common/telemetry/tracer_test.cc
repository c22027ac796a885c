#include "common/telemetry/tracer.h"

#include <stdexcept>

#include "absl/time/clock.h"
#include "common/telemetry/stage_spans.h"
#include "gtest/gtest.h"
#include "tests/support/fake_span_sink.h"

namespace bastion {
namespace {

using testing::FakeSpanSink;
using testing::SpanLog;

Span SpanOf(bool sampled = true) {
  Span span;
  span.context = NewTrace(sampled);
  return span;
}

class TracerTest : public ::testing::Test {
 protected:
  void Start(const TracerOptions& options = {}) {
    tracer_ = std::make_unique<Tracer>(options, std::make_unique<FakeSpanSink>(&log_));
  }
  bool AwaitCounts(int64_t exported, int64_t failed) {
    for (int i = 0; i < 2000; ++i) {
      const SpanCounts counts = tracer_->counts();
      if (counts.exported == exported && counts.failed == failed) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }

  SpanLog log_;
  std::unique_ptr<Tracer> tracer_;
};

TEST_F(TracerTest, ExportsFullBatchesAtOnce) {
  Start({.batch = 4, .interval = absl::Hours(1)});
  for (int i = 0; i < 3; ++i) tracer_->Record(SpanOf());
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(tracer_->counts().exported, 0);
  tracer_->Record(SpanOf());
  EXPECT_TRUE(AwaitCounts(4, 0));
}

TEST_F(TracerTest, ExportsSmallBatchesAfterTheInterval) {
  Start({.interval = absl::Milliseconds(10)});
  tracer_->Record(SpanOf());
  EXPECT_TRUE(AwaitCounts(1, 0));
}

TEST_F(TracerTest, ExportsTheRestWhenItEnds) {
  Start({.interval = absl::Hours(1)});
  for (int i = 0; i < 3; ++i) tracer_->Record(SpanOf());
  tracer_.reset();
  EXPECT_EQ(log_.spans().size(), 3u);
}

TEST_F(TracerTest, ASinkThatThrowsLosesOnlyItsSpans) {
  struct ThrowingSink final : SpanSink {
    explicit ThrowingSink(SpanLog* log) : rest(log) {}
    absl::Status Export(absl::Span<const Span> spans) override {
      if (++calls == 1) throw std::runtime_error("no memory");
      return rest.Export(spans);
    }
    FakeSpanSink rest;
    int calls = 0;
  };
  tracer_ = std::make_unique<Tracer>(TracerOptions{.batch = 1, .interval = absl::Milliseconds(5)},
                                     std::make_unique<ThrowingSink>(&log_));
  tracer_->Record(SpanOf());
  for (int i = 0; i < 2000 && tracer_->counts().exported == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(5));
    tracer_->Record(SpanOf());
  }
  EXPECT_GT(tracer_->counts().exported, 0);
}

TEST_F(TracerTest, SpansThatAreNotSampledAreIgnored) {
  Start({.interval = absl::Hours(1)});
  tracer_->Record(SpanOf(false));
  tracer_->Record(std::vector<Span>{SpanOf(false), SpanOf(true)});
  tracer_.reset();
  EXPECT_EQ(log_.spans().size(), 1u);
}

TEST_F(TracerTest, AFullQueueDropsSpansWhileTheSinkHangs) {
  log_.Hold(true);
  Start({.queue = 8, .batch = 4, .interval = absl::Hours(1)});
  for (int i = 0; i < 4; ++i) tracer_->Record(SpanOf());
  ASSERT_TRUE(log_.AwaitHeldExport());
  const absl::Time began = absl::Now();
  for (int i = 0; i < 100; ++i) tracer_->Record(SpanOf());
  EXPECT_LT(absl::Now() - began, absl::Seconds(1));
  EXPECT_EQ(tracer_->counts().dropped, 92);
  log_.Hold(false);
  EXPECT_TRUE(AwaitCounts(12, 0));
}

TEST_F(TracerTest, FailedExportsAreCounted) {
  log_.Fail(absl::UnavailableError("no collector"));
  Start({.batch = 2, .interval = absl::Milliseconds(5)});
  for (int i = 0; i < 5; ++i) tracer_->Record(SpanOf());
  EXPECT_TRUE(AwaitCounts(0, 5));
  log_.Fail(absl::OkStatus());
  tracer_->Record(SpanOf());
  EXPECT_TRUE(AwaitCounts(1, 5));
}

TEST_F(TracerTest, PartsOfACallAreAttributesAndInDetailModeSpans) {
  for (const bool detail : {false, true}) {
    Start({.interval = absl::Hours(1), .detail = detail});
    const TraceContext parent = NewTrace(true);
    StageSpans spans(tracer_.get(), parent, "verify", absl::Seconds(100));
    spans.AddPart("queue", "queue_ms", absl::ZeroDuration());
    spans.AddPart("layout", "layout_ms", absl::Milliseconds(2));
    spans.AddPart("forward", "forward_ms", absl::Milliseconds(5));
    spans.Record();
    tracer_.reset();
    const std::vector<Span> all = log_.Take();
    ASSERT_EQ(all.size(), detail ? 3u : 1u);
    EXPECT_EQ(all[0].parent, parent.span);
    EXPECT_TRUE(all[0].context.same_trace(parent));
    ASSERT_EQ(all[0].attributes.size(), 2u);
    EXPECT_EQ(std::get<double>(all[0].attributes[1].second), 5);
    if (!detail) continue;
    EXPECT_EQ(all[2].name, "forward");
    EXPECT_EQ(all[2].parent, all[0].context.span);
    EXPECT_EQ(all[2].start, all[0].start + absl::Milliseconds(2));
    EXPECT_EQ(all[2].end, all[0].start + absl::Milliseconds(7));
  }
}

}  // namespace
}  // namespace bastion
