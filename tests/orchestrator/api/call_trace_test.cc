#include "orchestrator/api/call_trace.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "tests/support/fake_span_sink.h"

namespace bastion {
namespace {

using testing::FindAttribute;

// -1 if there is none.
int64_t Integer(const Span& span, const std::string& name) {
  const SpanAttribute* const value = FindAttribute(span, name);
  return value == nullptr ? -1 : std::get<int64_t>(*value);
}

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The spans of a call, the call's own last.
std::vector<Span> SpansOf(absl::FunctionRef<void(CallTrace&)> call) {
  testing::SpanLog log;
  auto tracer = std::make_unique<Tracer>(TracerOptions{.interval = absl::Hours(1)},
                                         std::make_unique<testing::FakeSpanSink>(&log));
  {
    CallTrace trace(tracer.get(), kTraceparent, "");
    call(trace);
  }
  tracer.reset();
  return log.spans();
}

TEST(CallTraceTest, TheSpanOfACallCountsTheTokensOfAllPrompts) {
  const std::vector<Span> spans = SpansOf([](CallTrace& trace) {
    // Two answers to each of two prompts.
    std::vector<PreparedRequest> requests(
        2, PreparedRequest{"id", {}, *Policy::Parse("ar"), *StopStrings::Create({})});
    requests[0].decode.prompt = {1, 2, 3};
    requests[1].decode.prompt = {1, 2, 3, 4};
    for (PreparedRequest& request : requests) request.answers = 2;
    trace.SetRequests(requests, "model");
    for (const int answer : {0, 1, 2, 3}) {
      OutputDelta delta;
      delta.answer = answer;
      delta.tokens = {5, 6};
      delta.end.emplace();
      delta.end->cached_prompt_tokens = answer < 2 ? 1 : 2;
      trace.AddSend(absl::ZeroDuration(), delta);
    }
  });
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.usage.input_tokens"), 7);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.usage.output_tokens"), 8);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.usage.cache_read.input_tokens"), 3);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.request.choice.count"), 2);
}

TEST(CallTraceTest, ATracestateThatMetadataCannotHaveIsDropped) {
  testing::SpanLog log;
  Tracer tracer({.interval = absl::Hours(1)}, std::make_unique<testing::FakeSpanSink>(&log));
  const auto kept = [&](const std::string& state) {
    return CallTrace(&tracer, kTraceparent, state).trace_state();
  };
  EXPECT_EQ(kept("a=1,b=2"), "a=1,b=2");
  for (const char* state : {"a=1,\tb=2", "a=\x80", "a=1\n", "a=\x7F"}) EXPECT_EQ(kept(state), "");
  EXPECT_EQ(kept(std::string(513, 'a')), "");
}

TEST(CallTraceTest, TheSpanOfARefusedCallHasNoCachedTokens) {
  const std::vector<Span> spans = SpansOf(
      [](CallTrace& trace) { trace.SetStatus(absl::ResourceExhaustedError("the queue is full")); });
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(FindAttribute(spans[0], "gen_ai.usage.cache_read.input_tokens"), nullptr);
}

}  // namespace
}  // namespace bastion
