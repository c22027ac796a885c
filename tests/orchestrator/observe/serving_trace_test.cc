#include "orchestrator/observe/serving_trace.h"

#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/support/fake_span_sink.h"

namespace bastion {
namespace {

using testing::Answer;
using testing::ReadAll;
using testing::RequestSpec;

int64_t Integer(const Span& span, const std::string& name) {
  const SpanAttribute* const value = testing::FindAttribute(span, name);
  return value == nullptr ? 0 : std::get<int64_t>(*value);
}

// The sum of the stages in milliseconds.
double Stages(const Span& span) {
  double sum = 0;
  for (const auto& [name, value] : span.attributes) {
    if (std::string_view(name).starts_with("bastion.stage.")) sum += std::get<double>(value);
  }
  return sum;
}

bool IsLinked(const Span& from, const Span& to) {
  return std::find(from.links.begin(), from.links.end(), to.context) != from.links.end();
}

class ServingTraceTest : public testing::SchedulerTest {
 protected:
  void Trace(bool detail = false) {
    tracer_ = std::make_unique<Tracer>(
        TracerOptions{.queue = 100000, .interval = absl::Hours(1), .detail = detail},
        std::make_unique<testing::FakeSpanSink>(&log_));
    trace_ = std::make_unique<ServingTrace>(tracer_.get());
    observer_ = trace_.get();
    StartAndAwaitReady();
  }
  // Submits a request with a span.
  std::shared_ptr<RequestStream> SubmitTraced(RequestSpec spec, bool sampled = true) {
    spec.trace = NewTrace(sampled);
    requests_.push_back(spec.trace);
    return Submit(spec);
  }
  // Ends everything, and returns all spans.
  std::vector<Span> Finish() {
    EXPECT_TRUE(AwaitIdle());
    scheduler_.reset();
    tracer_.reset();
    return log_.Take();
  }
  // The spans below `request` with this name.
  static std::vector<Span> Below(const std::vector<Span>& spans, const TraceContext& request,
                                 const std::string& name) {
    std::vector<Span> found;
    for (const Span& span : spans) {
      if (span.parent == request.span && span.name == name) found.push_back(span);
    }
    return found;
  }

  testing::SpanLog log_;
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<ServingTrace> trace_;
  std::vector<TraceContext> requests_;
};

TEST_F(ServingTraceTest, ARequestAloneHasAllItsCyclesInItsTrace) {
  Trace();
  const Answer answer = ReadAll(*SubmitTraced({.prompt = Prompt(300), .policy = "fixed:8"}));
  ASSERT_TRUE(answer.status.ok());
  const std::vector<Span> spans = Finish();
  for (const Span& span : spans) {
    EXPECT_TRUE(span.context.same_trace(requests_[0])) << span.name;
    EXPECT_LE(span.start, span.end) << span.name;
  }
  EXPECT_EQ(Below(spans, requests_[0], "queue").size(), 1u);
  int64_t prompt_tokens = 0;
  for (const Span& chunk : Below(spans, requests_[0], "prefill")) {
    prompt_tokens += Integer(chunk, "bastion.prefill.tokens");
  }
  EXPECT_EQ(prompt_tokens, 299);
  const std::vector<Span> cycles = Below(spans, requests_[0], "cycle");
  EXPECT_EQ(cycles.size(), answer.end.cycles.size());
  int64_t committed = 0;
  for (const Span& cycle : cycles) {
    committed += Integer(cycle, "bastion.cycle.committed_length");
    const double total = absl::ToDoubleMilliseconds(cycle.end - cycle.start);
    EXPECT_NEAR(Stages(cycle), total, 1e-3);
  }
  EXPECT_EQ(committed, answer.end.completion_tokens);
}

TEST_F(ServingTraceTest, ACycleOfSeveralRequestsIsLinkedWithThemInBothDirections) {
  Trace();
  verifier_.Hold(true);
  const auto blocker = SubmitTraced({.prompt = {1}, .max_tokens = 1});
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(SubmitTraced({.prompt = {1, i}, .policy = "ar"}));
  streams.push_back(SubmitTraced({.prompt = {7, 8}}, /*sampled=*/false));
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(ReadAll(*stream).status.ok());
  const std::vector<Span> spans = Finish();
  int shared = 0;
  for (const Span& whole : spans) {
    if (whole.name != "cycle" || whole.parent != 0) continue;
    ++shared;
    EXPECT_LE(whole.links.size(), 4u) << "the request that is not sampled has no spans";
    double stages = 0;
    for (const Span& part : spans) {
      if (!IsLinked(part, whole)) continue;
      EXPECT_TRUE(IsLinked(whole, part));
      EXPECT_FALSE(part.context.same_trace(whole.context));
      stages += Stages(part);
    }
    // The fifth request's part is missing.
    EXPECT_LT(stages, Stages(whole) + 1e-3);
    EXPECT_GT(stages, 0.5 * Stages(whole));
  }
  EXPECT_GE(shared, 19);
  for (size_t i = 1; i <= 4; ++i) {
    int64_t committed = 0;
    for (const Span& cycle : Below(spans, requests_[i], "cycle")) {
      committed += Integer(cycle, "bastion.cycle.committed_length");
    }
    EXPECT_EQ(committed, 20);
  }
  EXPECT_TRUE(Below(spans, requests_[5], "cycle").empty());
}

TEST_F(ServingTraceTest, DetailAddsConsecutiveStagesBelowTheCycle) {
  Trace(/*detail=*/true);
  EXPECT_TRUE(ReadAll(*SubmitTraced({.policy = "fixed:8"})).status.ok());
  const std::vector<Span> spans = Finish();
  int cycles = 0, drafts = 0;
  for (const Span& cycle : Below(spans, requests_[0], "cycle")) {
    ++cycles;
    std::vector<Span> stages;
    for (const Span& span : spans) {
      if (span.parent == cycle.context.span) stages.push_back(span);
    }
    ASSERT_GE(stages.size(), 2u);
    absl::Duration sum;
    for (size_t i = 0; i < stages.size(); ++i) {
      sum += stages[i].end - stages[i].start;
      EXPECT_GE(stages[i].start, i == 0 ? cycle.start : stages[i - 1].end);
      EXPECT_LE(stages[i].end, cycle.end);
      drafts += stages[i].name == "draft" ? 1 : 0;
    }
    EXPECT_EQ(stages.back().name, "verify");
    const absl::Duration total = cycle.end - cycle.start;
    EXPECT_GT(sum, 0.95 * total - absl::Microseconds(20));
  }
  EXPECT_GT(cycles, 3);
  EXPECT_GE(drafts, cycles - 1) << "the last cycle has nothing to draft";
}

TEST_F(ServingTraceTest, RequestsThatAreNotTracedCostNoSpans) {
  Trace();
  EXPECT_TRUE(ReadAll(*Submit({})).status.ok());
  EXPECT_TRUE(ReadAll(*SubmitTraced({}, /*sampled=*/false)).status.ok());
  EXPECT_TRUE(Finish().empty());
}

}  // namespace
}  // namespace bastion
