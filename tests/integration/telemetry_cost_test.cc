// Measures the CPU time that metrics and traces take on the threads that serve a cycle, in all
// three services together.
#include <ctime>

#include "drafter_service/serve/drafter_telemetry.h"
#include "gtest/gtest.h"
#include "orchestrator/program/serving_telemetry.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "verifier_service/serve/verifier_telemetry.h"

namespace bastion {
namespace {

constexpr int kCycles = 10000;

// Takes spans as fast as possible.
class DiscardingSink final : public SpanSink {
 public:
  absl::Status Export(absl::Span<const Span>) override { return absl::OkStatus(); }
};

double ThreadMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// One cycle of one request with a tree of 16 nodes, after another.
class TelemetryCostTest : public ::testing::Test {
 protected:
  TelemetryCostTest() {
    testing::RequestSpec spec = {.max_tokens = 1000000};
    spec.trace = NewTrace(/*sampled=*/true);
    request_ = maker_.Make(spec);
    maker_.Admit(*request_, 1);
    request_->sequence().RecordPrefill(2);
    GrownTree grown = {.tree = DraftTree(3)};
    for (int node = 0; node < 16; ++node) {
      (void)grown.tree.Add(NodeIndex::Of(node / 2), node, -0.5f);
    }
    grown.drafted = true;
    CycleRecord record;
    record.stages.draft = absl::Microseconds(200);
    record.stages.verify = absl::Microseconds(600);
    request_->sequence().Commit(grown, {.path = {1, 3}, .next = 5}, record);
    cycle_.stages = record.stages;
    cycle_.size = {.sequences = 1, .rows = 17};
    cycle_.trace.forward = cycle_.trace.layout = cycle_.trace.accept = absl::Microseconds(200);
    cycle_.drafted = true;
    cycle_.plain = absl::Microseconds(300);
    cycle_.draft_began = absl::Microseconds(10);
    cycle_.tree_began = absl::Microseconds(210);
    cycle_.verify_began = absl::Microseconds(220);
    requests_.decoding = {request_.get()};
    result_ = VerifyResult();
    result_->trace = cycle_.trace;
    drafted_.forward = drafted_.candidates = drafted_.context = absl::Microseconds(50);
  }

  // Microseconds of CPU per cycle. The timeline is always on.
  double Measure(bool metrics, std::unique_ptr<Tracer> tracer) {
    ServiceTelemetry telemetry({.service = "test",
                                .model = "m",
                                .http = {.listen = metrics ? "127.0.0.1:0" : ""},
                                .tracer = std::move(tracer)});
    ServingTelemetry serving(&telemetry);
    verifier::VerifierTelemetry verifier(&telemetry);
    drafter::DrafterTelemetry drafter(&telemetry);
    ServingObserver& observer = *serving.observer();
    const double before = ThreadMicroseconds();
    for (int i = 0; i < kCycles; ++i) {
      const std::string traceparent = FormatTraceparent(observer.OnCycleBegin(requests_));
      drafter.RecordExpand({traceparent, {}, absl::Microseconds(1)}, absl::OkStatus(), drafted_);
      verifier.RecordVerify({traceparent, {}, absl::Microseconds(1), 1, 0}, result_);
      observer.OnCycle(cycle_, requests_);
    }
    const double spent = (ThreadMicroseconds() - before) / kCycles;
    RecordProperty("microseconds", std::to_string(spent));
    return spent;
  }
  // The same with a tracer.
  double MeasureTraced(bool detail) {
    return Measure(
        /*metrics=*/false,
        std::make_unique<Tracer>(
            TracerOptions{.queue = 100000, .interval = absl::Milliseconds(1), .detail = detail},
            std::make_unique<DiscardingSink>()));
  }

  testing::RequestMaker maker_;
  std::unique_ptr<LiveRequest> request_;
  CycleSummary cycle_;
  ServedCycle requests_;
  absl::StatusOr<VerifyResult> result_ = absl::UnknownError("not set");
  DraftTrace drafted_;
};

TEST_F(TelemetryCostTest, MetricsTakeAtMost5Microseconds) {
  const double timeline = Measure(/*metrics=*/false, nullptr);
  EXPECT_LT(timeline, 2 * BASTION_SLOWDOWN);
  EXPECT_LT(Measure(/*metrics=*/true, nullptr) - timeline, 5 * BASTION_SLOWDOWN);
}

TEST_F(TelemetryCostTest, TracesTakeAtMost20Microseconds) {
  EXPECT_LT(MeasureTraced(/*detail=*/false), 20 * BASTION_SLOWDOWN);
}

TEST_F(TelemetryCostTest, DetailedTracesTakeAtMost100Microseconds) {
  EXPECT_LT(MeasureTraced(/*detail=*/true), 100 * BASTION_SLOWDOWN);
}

}  // namespace
}  // namespace bastion
