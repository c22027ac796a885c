#include "orchestrator/serve/call_trace.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/fake_span_sink.h"

namespace bastion {
namespace {

int64_t Integer(const Span& span, const std::string& name) {
  return std::get<int64_t>(*testing::FindAttribute(span, name));
}

TEST(CallTraceTest, TheSpanOfACallCountsTheTokensOfAllPrompts) {
  testing::SpanLog log;
  auto tracer = std::make_unique<Tracer>(TracerOptions{.interval = absl::Hours(1)},
                                         std::make_unique<testing::FakeSpanSink>(&log));
  {
    CallTrace trace(tracer.get(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "");
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
  }
  tracer.reset();
  const std::vector<Span> spans = log.spans();
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.usage.input_tokens"), 7);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.usage.output_tokens"), 8);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.usage.cache_read.input_tokens"), 3);
  EXPECT_EQ(Integer(spans.back(), "gen_ai.request.choice.count"), 2);
}

}  // namespace
}  // namespace bastion
