#include "common/telemetry/trace_context.h"

#include <set>
#include <thread>

#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr char kExample[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, ATraceparentIsParsedAndFormatted) {
  const auto context = ParseTraceparent(kExample);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_high, 0x0af7651916cd43ddu);
  EXPECT_EQ(context->trace_low, 0x8448eb211c80319cu);
  EXPECT_EQ(context->span, 0xb7ad6b7169203331u);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(FormatTraceparent(*context), kExample);
  const auto unsampled =
      ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
  ASSERT_TRUE(unsampled);
  EXPECT_FALSE(unsampled->sampled);
  EXPECT_EQ(FormatTraceparent({}), "");
}

TEST(TraceContextTest, LaterVersionsMayHaveFurtherFields) {
  EXPECT_TRUE(ParseTraceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
  EXPECT_FALSE(ParseTraceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more"));
}

TEST(TraceContextTest, InvalidTraceparentsAreRefused) {
  for (const char* text : {
           "",
           "00",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
       }) {
    EXPECT_FALSE(ParseTraceparent(text)) << text;
  }
}

TEST(TraceContextTest, NewIdsDiffer) {
  std::set<uint64_t> spans;
  const TraceContext parent = NewTrace(true);
  EXPECT_TRUE(parent.valid());
  for (int i = 0; i < 1000; ++i) {
    const TraceContext child = NewSpan(parent);
    EXPECT_TRUE(child.same_trace(parent));
    EXPECT_TRUE(child.sampled);
    spans.insert(child.span);
  }
  EXPECT_EQ(spans.size(), 1000u);
  uint64_t other = 0;
  std::thread([&] { other = NewTrace(true).span; }).join();
  EXPECT_EQ(spans.count(other), 0u);
}

TEST(TraceContextTest, ScopesNestAndBelongToTheirThread) {
  EXPECT_FALSE(CurrentTrace().valid());
  const TraceContext outer = NewTrace(true), inner = NewTrace(true);
  {
    const TraceScope outer_scope(outer);
    {
      const TraceScope inner_scope(inner);
      EXPECT_EQ(CurrentTrace(), inner);
      std::thread([] { EXPECT_FALSE(CurrentTrace().valid()); }).join();
    }
    EXPECT_EQ(CurrentTrace(), outer);
  }
  EXPECT_FALSE(CurrentTrace().valid());
}

}  // namespace
}  // namespace bastion
