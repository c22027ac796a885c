#include "common/telemetry/sampler.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

// How many of 1,000 new spans below `parent` are sampled.
int Sampled(const Sampler& sampler, const std::optional<TraceContext>& parent = std::nullopt) {
  int sampled = 0;
  for (int i = 0; i < 1000; ++i) sampled += sampler.Begin(parent).sampled ? 1 : 0;
  return sampled;
}

Sampler Parsed(const std::string& name, const std::string& argument = "") {
  return Sampler::Parse(name, argument).value();
}

TEST(SamplerTest, TheDefaultFollowsTheParentAndSamplesAllOthers) {
  for (const Sampler& sampler : {Sampler(), Parsed(""), Parsed("parentbased_always_on")}) {
    EXPECT_EQ(Sampled(sampler), 1000);
    EXPECT_EQ(Sampled(sampler, NewTrace(true)), 1000);
    EXPECT_EQ(Sampled(sampler, NewTrace(false)), 0);
  }
}

TEST(SamplerTest, ARatioSamplesItsShare) {
  EXPECT_EQ(Sampled(Parsed("traceidratio", "0")), 0);
  EXPECT_EQ(Sampled(Parsed("traceidratio", "1")), 1000);
  EXPECT_EQ(Sampled(Parsed("traceidratio")), 1000);
  const int quarter = Sampled(Parsed("parentbased_traceidratio", "0.25"));
  EXPECT_GT(quarter, 150);
  EXPECT_LT(quarter, 350);
}

TEST(SamplerTest, ServicesWithTheSameRatioChooseTheSameTraces) {
  const Sampler a = Parsed("traceidratio", "0.5"), b = Parsed("traceidratio", "0.5");
  for (int i = 0; i < 100; ++i) {
    const TraceContext parent = NewTrace(i % 2 == 0);
    EXPECT_EQ(a.Begin(parent).sampled, b.Begin(parent).sampled);
  }
}

TEST(SamplerTest, ANewSpanStaysInTheTraceOfItsParent) {
  const TraceContext parent = NewTrace(true);
  for (const char* name : {"always_on", "always_off", "parentbased_always_off"}) {
    const TraceContext child = Parsed(name).Begin(parent);
    EXPECT_TRUE(child.same_trace(parent));
    EXPECT_NE(child.span, parent.span);
  }
  EXPECT_FALSE(Parsed("always_off").Begin(parent).sampled);
  EXPECT_TRUE(Parsed("parentbased_always_off").Begin(parent).sampled);
}

TEST(SamplerTest, OtherNamesAndSharesAreRefused) {
  for (const char* name : {"always", "parentbased_", "parentbased_parentbased_always_on"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Sampler::Parse(name, "").status())) << name;
  }
  for (const char* share : {"-0.1", "1.1", "half", "nan"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Sampler::Parse("traceidratio", share).status())) << share;
  }
}

}  // namespace
}  // namespace bastion
