#include "orchestrator/console/console_feed.h"

#include <numeric>

#include "gmock/gmock.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::IsNull;
using testing::RequestSpec;
using ::testing::SizeIs;

// Cycles of requests that are committed by hand.
class ConsoleFeedTest : public ::testing::Test {
 protected:
  ConsoleFeedTest() { clock_.Advance(absl::Seconds(1000)); }

  LiveRequest& Add(const RequestSpec& spec = {.max_tokens = 1000}) {
    requests_.push_back(maker_.Make(spec));
    maker_.Admit(*requests_.back(), requests_.size());
    requests_.back()->sequence().RecordPrefill(requests_.back()->prompt_left());
    return *requests_.back();
  }
  // A cycle in which each request verifies a tree of 3 nodes and commits `length` tokens, 1 to 3.
  void Cycle(const std::vector<LiveRequest*>& decoding, int length = 2) {
    CycleSummary cycle;
    cycle.stages.verify = absl::Milliseconds(3);
    cycle.stages.draft = absl::Milliseconds(1);
    cycle.predicted_verify = absl::Milliseconds(2);
    cycle.plain = absl::Milliseconds(4);
    cycle.drafted = true;
    const int requests = static_cast<int>(decoding.size());
    cycle.size = {.sequences = requests, .rows = 4 * requests};
    for (LiveRequest* request : decoding) {
      GrownTree grown = {.tree = DraftTree(3)};
      for (int node = 0; node < 3; ++node) {
        grown.tree.Add(NodeIndex::Of(node), 10 + node, -0.5f * node);
      }
      std::vector<NodeIndex> path;
      for (NodeIndex node = 1; node < length; ++node) path.push_back(node);
      CycleRecord record;
      record.stages = cycle.stages;
      request->sequence().Commit(grown, {.path = path, .next = 5}, record);
    }
    feed_.OnCycle(cycle, {.decoding = decoding, .chunks = {}});
  }

  // A viewer polls.
  void Poll() { polled_ = feed_.Read(0); }

  testing::ManualClock clock_;
  testing::RequestMaker maker_{&clock_};
  ConsoleFeed feed_{&clock_};
  std::vector<std::unique_ptr<LiveRequest>> requests_;
  ConsoleSnapshot polled_;
};

TEST_F(ConsoleFeedTest, AnIdleServiceHasNoCyclesAndNoRequests) {
  const ConsoleSnapshot snapshot = feed_.Read(0);
  EXPECT_THAT(snapshot.cycles, SizeIs(0));
  EXPECT_THAT(snapshot.requests, SizeIs(0));
  EXPECT_THAT(snapshot.intervals, SizeIs(ConsoleFeed::kIntervals));
  EXPECT_THAT(snapshot.intervals, Each(Field(&ConsoleInterval::tokens, 0)));
  EXPECT_EQ(snapshot.idle, absl::InfiniteDuration());
  EXPECT_EQ(snapshot.speedup, 1);
}

TEST_F(ConsoleFeedTest, AViewerGetsTheCyclesAfterTheLastOneThatItSaw) {
  LiveRequest& request = Add();
  for (int i = 0; i < 5; ++i) Cycle({&request});
  const ConsoleSnapshot all = feed_.Read(0);
  ASSERT_THAT(all.cycles, SizeIs(5));
  const ConsoleCycle& last = all.cycles.back();
  EXPECT_EQ(last.number, 5);
  EXPECT_EQ(last.mode, CycleMode::kDrafted);
  EXPECT_EQ(last.stages.verify, absl::Milliseconds(3));
  EXPECT_EQ(last.predicted_verify, absl::Milliseconds(2));
  EXPECT_EQ(last.requests, 1);
  EXPECT_EQ(last.rows, 4);
  EXPECT_EQ(last.nodes, 3);
  EXPECT_EQ(last.tokens, 2);
  const ConsoleSnapshot some = feed_.Read(3);
  ASSERT_THAT(some.cycles, SizeIs(2));
  EXPECT_EQ(some.cycles[0].number, 4);
  EXPECT_THAT(feed_.Read(5).cycles, SizeIs(0));
}

TEST_F(ConsoleFeedTest, AViewerOfAnEarlierRunGetsAllCycles) {
  LiveRequest& request = Add();
  for (int i = 0; i < 3; ++i) Cycle({&request});
  EXPECT_THAT(feed_.Read(1000000).cycles, SizeIs(3));
  EXPECT_THAT(feed_.Read(-1).cycles, SizeIs(3));
}

TEST_F(ConsoleFeedTest, OnlyTheLastCyclesAreKept) {
  LiveRequest& request = Add();
  for (int i = 0; i < 2 * ConsoleFeed::kCycles + 7; ++i) Cycle({&request}, 1);
  const ConsoleSnapshot snapshot = feed_.Read(0);
  ASSERT_THAT(snapshot.cycles, SizeIs(ConsoleFeed::kCycles));
  for (int i = 0; i < ConsoleFeed::kCycles; ++i) {
    EXPECT_EQ(snapshot.cycles[i].number, ConsoleFeed::kCycles + 8 + i);
  }
}

TEST_F(ConsoleFeedTest, TheMinuteSumsTokensLengthsAndTimes) {
  LiveRequest &a = Add(), &b = Add();
  Cycle({&a, &b}, 3);
  clock_.Advance(ConsoleFeed::kInterval);
  Cycle({&a}, 1);
  const ConsoleSnapshot snapshot = feed_.Read(0);
  const ConsoleInterval& before = snapshot.intervals[ConsoleFeed::kIntervals - 2];
  EXPECT_EQ(before.tokens, 6);
  EXPECT_EQ(before.request_cycles, 2);
  EXPECT_EQ(before.lengths[2], 2);
  EXPECT_EQ(before.spent, absl::Milliseconds(4));
  EXPECT_EQ(before.plain, absl::Milliseconds(12));
  const ConsoleInterval& now = snapshot.intervals.back();
  EXPECT_EQ(now.tokens, 1);
  EXPECT_EQ(now.lengths[0], 1);
  EXPECT_NEAR(snapshot.speedup, 2, 0.01);
}

TEST_F(ConsoleFeedTest, WhatIsOlderThanAMinuteIsForgotten) {
  LiveRequest& request = Add();
  Cycle({&request});
  clock_.Advance(ConsoleFeed::kIntervals * ConsoleFeed::kInterval);
  const ConsoleSnapshot snapshot = feed_.Read(0);
  EXPECT_THAT(snapshot.intervals, Each(Field(&ConsoleInterval::tokens, 0)));
  EXPECT_EQ(snapshot.idle, ConsoleFeed::kIntervals * ConsoleFeed::kInterval);
  // The slot of the old interval is used again.
  Cycle({&request});
  EXPECT_EQ(feed_.Read(0).intervals.back().tokens, 2);
}

TEST_F(ConsoleFeedTest, WithoutAViewerNoTreeIsKept) {
  LiveRequest& request = Add();
  for (int i = 0; i < 10; ++i) {
    Cycle({&request});
    EXPECT_THAT(request.sequence().cycles().back().tree, IsNull());
  }
  EXPECT_THAT(feed_.Read(0).requests, SizeIs(0));
  Cycle({&request});
  Cycle({&request});
  EXPECT_NE(request.sequence().cycles().back().tree, nullptr);
  clock_.Advance(ConsoleFeed::kWatched);
  Cycle({&request});
  Cycle({&request});
  EXPECT_THAT(request.sequence().cycles().back().tree, IsNull());
}

TEST_F(ConsoleFeedTest, AViewerGetsTheTreeOfEachRequestAFewTimesPerSecond) {
  LiveRequest& request = Add();
  int trees = 0;
  for (int cycle = 0; cycle < 990; ++cycle) {
    if (cycle % 500 == 0) Poll();
    Cycle({&request}, 1);
    if (request.sequence().cycles().back().tree != nullptr) ++trees;
    clock_.Advance(absl::Milliseconds(4));
  }
  EXPECT_GE(trees, 8);
  EXPECT_LE(trees, 11);
  const ConsoleSnapshot snapshot = feed_.Read(0);
  ASSERT_THAT(snapshot.requests, SizeIs(1));
  ASSERT_NE(snapshot.requests[0].tree, nullptr);
  EXPECT_EQ(snapshot.requests[0].tree->tree.nodes(), 3);
}

TEST_F(ConsoleFeedTest, TreesOfManyRequestsAreLimited) {
  std::vector<LiveRequest*> requests;
  for (int i = 0; i < 2 * ConsoleFeed::kTrees; ++i) requests.push_back(&Add());
  Poll();
  for (int cycle = 0; cycle < 3; ++cycle) Cycle(requests);
  int trees = 0;
  for (const ConsoleRequest& request : feed_.Read(0).requests) trees += request.tree != nullptr;
  EXPECT_EQ(trees, ConsoleFeed::kTrees);
}

TEST_F(ConsoleFeedTest, ARequestIsShownFromItsFirstCycleUntilAfterItsEnd) {
  Poll();
  RequestSpec spec = {.client = std::string(1000, 'c'), .id = std::string(1000, 'i')};
  spec.max_tokens = 5;
  spec.policy = "fixed:4";
  LiveRequest& request = Add(spec);
  Cycle({&request});
  Cycle({&request});
  ConsoleSnapshot snapshot = feed_.Read(0);
  ASSERT_THAT(snapshot.requests, SizeIs(1));
  EXPECT_EQ(snapshot.requests[0].state, ConsoleRequest::State::kDecoding);
  EXPECT_EQ(snapshot.requests[0].id, std::string(ConsoleFeed::kNameBytes, 'i'));
  EXPECT_EQ(snapshot.requests[0].client, std::string(ConsoleFeed::kNameBytes, 'c'));
  EXPECT_EQ(snapshot.requests[0].policy, "fixed:4");
  EXPECT_EQ(snapshot.requests[0].prompt_tokens, 3);
  EXPECT_EQ(snapshot.requests[0].output_tokens, 4);
  EXPECT_EQ(snapshot.requests[0].max_tokens, 5);
  EXPECT_EQ(snapshot.requests[0].cycles, 2);
  EXPECT_EQ(snapshot.requests[0].tree_cycle, 2);
  // The scheduler reports the end before the last cycle.
  feed_.OnEnd(request, absl::OkStatus());
  Cycle({&request});
  ASSERT_TRUE(request.sequence().done());
  requests_.clear();
  clock_.Advance(absl::Seconds(5));
  snapshot = feed_.Read(0);
  ASSERT_THAT(snapshot.requests, SizeIs(1));
  EXPECT_EQ(snapshot.requests[0].state, ConsoleRequest::State::kDone);
  EXPECT_EQ(snapshot.requests[0].idle, absl::Seconds(5));
  clock_.Advance(ConsoleFeed::kEndedKept);
  EXPECT_THAT(feed_.Read(0).requests, SizeIs(0));
}

TEST_F(ConsoleFeedTest, ARequestThatFailsIsShownAsFailed) {
  Poll();
  LiveRequest& request = Add();
  Cycle({&request});
  feed_.OnEnd(request, absl::CancelledError("the client disconnected"));
  ASSERT_THAT(feed_.Read(0).requests, SizeIs(1));
  EXPECT_EQ(feed_.Read(0).requests[0].state, ConsoleRequest::State::kFailed);
}

TEST_F(ConsoleFeedTest, TheListOfRequestsIsLimitedAndPrefersCurrentOnes) {
  Poll();
  std::vector<LiveRequest*> requests;
  for (int i = 0; i < ConsoleFeed::kRequests; ++i) requests.push_back(&Add());
  Cycle(requests);
  LiveRequest& late = Add();
  Cycle({&late});
  EXPECT_THAT(feed_.Read(0).requests, SizeIs(ConsoleFeed::kRequests));
  feed_.OnEnd(*requests[3], absl::OkStatus());
  Cycle({&late});
  const ConsoleSnapshot snapshot = feed_.Read(0);
  EXPECT_THAT(snapshot.requests, SizeIs(ConsoleFeed::kRequests));
  EXPECT_THAT(snapshot.requests,
              Each(Field(&ConsoleRequest::state, ConsoleRequest::State::kDecoding)));
}

class WatchedSchedulerTest : public testing::SchedulerTest {
 protected:
  void TearDown() override { scheduler_.reset(); }

  ConsoleFeed feed_;
};

// A viewer polls while the scheduler decodes, ends, cancels and preempts requests.
TEST_F(WatchedSchedulerTest, AViewerSeesEveryTokenOfABusyScheduler) {
  observer_ = &feed_;
  verifier_.fake()->kv_tokens = 60 * testing::kToyPage;
  options_.max_running = 6;
  StartAndAwaitReady();
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 30; ++i) {
    RequestSpec spec = {.prompt = Prompt(10 + 3 * i, i % 5), .max_tokens = 30 + i};
    spec.policy = i % 2 == 0 ? "fixed:8" : "ar";
    streams.push_back(Submit(spec));
  }
  int64_t last = 0, tokens = 0;
  const auto poll = [&] {
    const ConsoleSnapshot snapshot = feed_.Read(last);
    for (const ConsoleCycle& cycle : snapshot.cycles) tokens += cycle.tokens;
    if (!snapshot.cycles.empty()) last = snapshot.cycles.back().number;
    EXPECT_LE(snapshot.requests.size(), static_cast<size_t>(ConsoleFeed::kRequests));
  };
  int64_t expected = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (i % 6 == 5) {
      scheduler_->Cancel(*streams[i]);
      continue;
    }
    poll();
    expected += static_cast<int64_t>(testing::ReadAll(*streams[i]).tokens.size());
  }
  EXPECT_TRUE(AwaitIdle());
  poll();
  EXPECT_GE(tokens, expected);
  for (const ConsoleRequest& request : feed_.Read(last).requests) {
    EXPECT_TRUE(request.state == ConsoleRequest::State::kDone ||
                request.state == ConsoleRequest::State::kFailed)
        << request.id;
  }
}

}  // namespace
}  // namespace bastion
