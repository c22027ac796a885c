#include "orchestrator/policy/policy.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

Policy Parsed(const std::string& text) {
  const absl::StatusOr<Policy> policy = Policy::Parse(text);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return *policy;
}

TEST(PolicyTest, ParsesEveryBasePolicyAndKeepsItsText) {
  for (const char* text : {"ar", "chain", "chain:7", "beam:4x15", "fixed:64", "ngram:4", "bastion",
                           "adaptive", "default", "eagle", "eagle:64,64,4096", "specblock",
                           "specblock:map=2-4-6-4,n=90", "specblock:literal,m=3+coupled+prior"}) {
    EXPECT_EQ(Parsed(text).text(), text);
  }
}

TEST(PolicyTest, BastionNamesItsEstimatorAndItsOptions) {
  for (const char* text :
       {"bastion:static", "bastion:ema", "bastion:ema-calib", "bastion:static,alpha=0.1,k=64,n=512",
        "bastion:k=8", "bastion:ema,alpha=0.25+coupled+prior"}) {
    EXPECT_EQ(Parsed(text).text(), text);
  }
  EXPECT_EQ(Parsed("bastion:k=1024").CandidatesFor(511), 511);
  EXPECT_EQ(Parsed("bastion:ema,k=8").CandidatesFor(511), 8);
  EXPECT_TRUE(Parsed("bastion:ema,k=8+coupled").coupled());
  EXPECT_THAT(Policy::Parse("bastion:fast").status().message(),
              HasSubstr("bastion[:static|ema|ema-calib][,alpha=A,k=K,n=N]"));
}

TEST(PolicyTest, EagleTakesUpToThreeNumbers) {
  for (const char* text :
       {"eagle", "eagle:8", "eagle:8,5", "eagle:8,5,63", "eagle:1,7,8+coupled+prior:table"}) {
    EXPECT_EQ(Parsed(text).text(), text);
    EXPECT_TRUE(Parsed(text).wants_draft());
  }
  EXPECT_EQ(Parsed("eagle").CandidatesFor(127), 10);
  EXPECT_EQ(Parsed("eagle").CandidatesFor(4), 4);
  EXPECT_EQ(Parsed("eagle:8,5").CandidatesFor(127), 8);
  EXPECT_EQ(Parsed("eagle:8,5,4").CandidatesFor(127), 3);
  EXPECT_TRUE(Parsed("eagle:8,5+coupled").coupled());
  EXPECT_THAT(Policy::Parse("eagle:8,0").status().message(),
              HasSubstr("eagle[:width[,depth[,n]]]"));
}

TEST(PolicyTest, ListsKeepOptionsWithTheirPolicy) {
  using ::testing::ElementsAre;
  EXPECT_THAT(SplitPolicies("ar,chain:7,,fixed:64"), ElementsAre("ar", "chain:7", "fixed:64"));
  EXPECT_THAT(SplitPolicies("bastion:ema,alpha=0.2,k=8+coupled,adaptive"),
              ElementsAre("bastion:ema,alpha=0.2,k=8+coupled", "adaptive"));
  EXPECT_THAT(SplitPolicies("bastion:k=8,n=16,bastion:k=9"),
              ElementsAre("bastion:k=8,n=16", "bastion:k=9"));
  EXPECT_THAT(SplitPolicies("ar,eagle,eagle:8,eagle:10,7,60+coupled,chain:7"),
              ElementsAre("ar", "eagle", "eagle:8", "eagle:10,7,60+coupled", "chain:7"));
  EXPECT_THAT(SplitPolicies("specblock:map=2-4-6-4,n=90,specblock:literal,m=1,ar"),
              ElementsAre("specblock:map=2-4-6-4,n=90", "specblock:literal,m=1", "ar"));
  EXPECT_THAT(SplitPolicies("7"), ElementsAre("7"));
  EXPECT_THAT(SplitPolicies("k=8"), ElementsAre("k=8"));
  EXPECT_TRUE(SplitPolicies("").empty());
}

TEST(PolicyTest, ArDoesNotWantDrafts) {
  EXPECT_FALSE(Parsed("ar").wants_draft());
  for (const char* text : {"chain", "beam:2x2", "fixed:1", "bastion", "adaptive", "default"}) {
    EXPECT_TRUE(Parsed(text).wants_draft()) << text;
  }
}

TEST(PolicyTest, RequestsNoMoreCandidatesThanNeeded) {
  EXPECT_EQ(Parsed("ar").CandidatesFor(64), 0);
  EXPECT_EQ(Parsed("chain").CandidatesFor(64), 1);
  EXPECT_EQ(Parsed("beam:4x15").CandidatesFor(64), 4);
  EXPECT_EQ(Parsed("fixed:16").CandidatesFor(64), 16);
  EXPECT_EQ(Parsed("fixed:256").CandidatesFor(64), 64);
  EXPECT_EQ(Parsed("bastion").CandidatesFor(20), 20);
  EXPECT_EQ(Parsed("adaptive").CandidatesFor(1000), 64);
}

TEST(PolicyTest, TheErrorForInvalidTextStatesTheGrammar) {
  for (const char* text : {"",
                           "AR",
                           "tree",
                           "fixed",
                           "fixed:",
                           "fixed:0",
                           "fixed:-1",
                           "fixed:+3",
                           "fixed:4097",
                           "fixed:99999999999999999999",
                           "fixed:1.5",
                           "fixed: 3",
                           "fixed:3:4",
                           "chain:",
                           "chain:0",
                           "beam",
                           "beam:4",
                           "beam:4x",
                           "beam:x15",
                           "beam:4x15x2",
                           "beam:4X15",
                           "eagle:",
                           "eagle:0",
                           "eagle:-1",
                           "eagle:65",
                           "eagle:10,",
                           "eagle:,7",
                           "eagle:10,0",
                           "eagle:10,-7",
                           "eagle:10,65",
                           "eagle:10,,60",
                           "eagle:10,7,",
                           "eagle:10,7,0",
                           "eagle:10,7,1",
                           "eagle:10,7,-60",
                           "eagle:10,7,4097",
                           "eagle:10,7,60,1",
                           "eagle:10, 7",
                           "eagle:10x7",
                           "eagle:n=60",
                           "specblock:",
                           "specblock:2",
                           "specblock:map=2-4-10",
                           "specblock:n=0",
                           "ar:1",
                           "bastion:2",
                           "bastion:",
                           "bastion:ema+calib",
                           "bastion:ema,alpha=2",
                           "bastion:static,k=0",
                           "adaptive:",
                           "default:64",
                           "adaptive+",
                           "adaptive+fast",
                           "+coupled",
                           "ar+coupled",
                           "ar+prior",
                           "ngram",
                           "ngram:0",
                           "ngram:8+coupled",
                           "adaptive+prior:",
                           "adaptive+prior:all",
                           "adaptive+prior:table:request",
                           "fixed:0+coupled"}) {
    const absl::Status status = Policy::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr("use ar, chain[:n], beam:WxD, fixed:N")) << text;
  }
}

TEST(PolicyTest, ParsesCoupled) {
  for (const char* text : {"adaptive+coupled", "chain:3+coupled", "fixed:64+coupled", "default"}) {
    ASSERT_TRUE(Policy::Parse(text).ok()) << text;
    EXPECT_TRUE(Policy::Parse(text)->coupled()) << text;
  }
  for (const char* text : {"ar", "adaptive", "chain:3", "fixed:64", "bastion"}) {
    EXPECT_FALSE(Policy::Parse(text)->coupled()) << text;
  }
}

TEST(PolicyTest, ParsesPrior) {
  using Prior = Policy::Prior;
  for (const char* text : {"adaptive+prior", "chain:3+coupled+prior", "fixed:64+prior+coupled",
                           "ngram:8", "default"}) {
    EXPECT_EQ(Parsed(text).prior(), Prior::kBoth) << text;
  }
  EXPECT_EQ(Parsed("fixed:8+prior:table").prior(), Prior::kTable);
  EXPECT_EQ(Parsed("adaptive+coupled+prior:request").prior(), Prior::kRequest);
  EXPECT_EQ(Parsed("ngram:8+prior:request").prior(), Prior::kRequest);
  for (const char* text : {"ar", "adaptive", "adaptive+coupled", "bastion", "fixed:64"}) {
    EXPECT_EQ(Parsed(text).prior(), Prior::kNone) << text;
  }
  EXPECT_EQ(Parsed("adaptive+prior").CandidatesFor(1000), 64);
  EXPECT_EQ(Parsed("chain+prior").CandidatesFor(1000), 64);
}

TEST(PolicyTest, NgramNeverDrafts) {
  EXPECT_FALSE(Parsed("ngram:16").wants_draft());
  EXPECT_EQ(Parsed("ngram:16").CandidatesFor(64), 0);
}

}  // namespace
}  // namespace bastion
