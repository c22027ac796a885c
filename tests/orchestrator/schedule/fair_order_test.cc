#include "orchestrator/schedule/fair_order.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using testing::RequestSpec;

class FairOrderTest : public ::testing::Test {
 protected:
  void Add(const RequestSpec& spec) { order_.Add(maker_.Make(spec)); }
  // Takes the next request and ends it after `tokens` tokens. Returns its id.
  std::string Serve(double tokens = 10) {
    const FairOrder::Request request = order_.Take();
    order_.Charge(*request, tokens);
    order_.ReleaseSlot(*request);
    order_.Leave(*request);
    return request->request().request_id;
  }
  // Takes the next request. It keeps its slot.
  std::string Take() {
    taken_.push_back(order_.Take());
    return taken_.back()->request().request_id;
  }
  // Takes the next request as the scheduler's `admission`-th, and gives back its slot.
  FairOrder::Request TakeAndPreempt(uint64_t admission) {
    FairOrder::Request request = order_.Take();
    maker_.Admit(*request, admission);
    order_.ReleaseSlot(*request);
    return request;
  }

  testing::RequestMaker maker_;
  FairOrder order_;
  std::vector<FairOrder::Request> taken_;
};

TEST_F(FairOrderTest, OneClientIsServedInTheOrderOfArrival) {
  for (const char* id : {"1", "2", "3"}) Add({.id = id});
  EXPECT_THAT((std::vector{Serve(), Serve(), Serve()}), ElementsAre("1", "2", "3"));
  EXPECT_EQ(order_.Next(), nullptr);
  EXPECT_TRUE(order_.idle());
}

TEST_F(FairOrderTest, AClientWithOneRequestDoesNotWaitForTwentyOfAnother) {
  for (int i = 0; i < 20; ++i) Add({.client = "many", .id = "m"});
  EXPECT_EQ(Take(), "m");
  Add({.client = "one", .id = "1"});
  EXPECT_EQ(Take(), "1");
  EXPECT_EQ(Take(), "m");
}

TEST_F(FairOrderTest, SlotsAreSharedBeforeTokensAreCounted) {
  for (int i = 0; i < 8; ++i) Add({.client = "a", .id = "a"});
  for (int i = 0; i < 8; ++i) Add({.client = "b", .id = "b"});
  int of_a = 0;
  for (int i = 0; i < 8; ++i) of_a += Take() == "a";
  EXPECT_EQ(of_a, 4);
}

TEST_F(FairOrderTest, AClientWithTwiceTheWeightGetsTwiceTheService) {
  for (int i = 0; i < 100; ++i) {
    Add({.client = "high", .id = "high", .priority = 20});
    Add({.client = "low", .id = "low", .priority = 10});
  }
  int high = 0;
  for (int i = 0; i < 90; ++i) high += Serve() == "high";
  EXPECT_NEAR(high, 60, 1);
}

TEST_F(FairOrderTest, PrioritiesOfOneClientShareItsService) {
  for (int i = 0; i < 100; ++i) {
    Add({.id = "high", .priority = 20});
    Add({.id = "low", .priority = 10});
  }
  int high = 0;
  for (int i = 0; i < 90; ++i) high += Serve() == "high";
  EXPECT_NEAR(high, 60, 1);
}

TEST_F(FairOrderTest, LongAnswersCountMore) {
  for (int i = 0; i < 100; ++i) {
    Add({.client = "long", .id = "long"});
    Add({.client = "short", .id = "short"});
  }
  int of_long = 0;
  for (int i = 0; i < 80; ++i) {
    const bool is_long = order_.Next()->request().client == "long";
    EXPECT_EQ(Serve(is_long ? 300 : 100) == "long", is_long);
    of_long += is_long;
  }
  EXPECT_NEAR(of_long, 20, 1);
}

TEST_F(FairOrderTest, PreemptedRequestsComeFirstInTheOrderOfTheirAdmission) {
  for (const char* id : {"1", "2", "3", "4"}) Add({.id = id});
  FairOrder::Request first = TakeAndPreempt(1), second = TakeAndPreempt(2);
  order_.AddPreempted(std::move(second));
  order_.AddPreempted(std::move(first));
  EXPECT_EQ(order_.size(), 4);
  EXPECT_THAT((std::vector{Serve(), Serve(), Serve(), Serve()}), ElementsAre("1", "2", "3", "4"));
}

TEST_F(FairOrderTest, NoOtherClientOvertakesARequestWhoseTurnHasCome) {
  Add({.client = "big", .id = "big"});
  ASSERT_EQ(order_.Next()->request().request_id, "big");
  Add({.client = "a", .id = "a", .priority = 100});
  EXPECT_EQ(Serve(), "big");
}

TEST_F(FairOrderTest, APreemptedRequestComesBeforeARequestWhoseTurnHasCome) {
  Add({.id = "1"});
  Add({.id = "2"});
  FairOrder::Request first = TakeAndPreempt(1);
  ASSERT_EQ(order_.Next()->request().request_id, "2");
  order_.AddPreempted(std::move(first));
  EXPECT_THAT((std::vector{Serve(), Serve()}), ElementsAre("1", "2"));
}

TEST_F(FairOrderTest, AReturnedRequestComesBeforeTheOthersOfItsClientOnly) {
  Add({.client = "slow", .id = "1"});
  Add({.client = "slow", .id = "2"});
  FairOrder::Request first = order_.Take();
  order_.Charge(*first, 1000);
  order_.ReleaseSlot(*first);
  Add({.client = "other", .id = "other"});
  order_.Charge(*first, 1000);
  order_.AddReturned(std::move(first));
  EXPECT_THAT((std::vector{Serve(), Serve(), Serve()}), ElementsAre("other", "1", "2"));
}

TEST_F(FairOrderTest, RemovedRequestsLeaveNothingBehind) {
  for (int i = 0; i < 5; ++i) Add({.client = "a", .id = "a", .priority = 10 + i});
  Add({.client = "b", .id = "b"});
  ASSERT_NE(order_.Next(), nullptr);
  const auto removed =
      order_.Remove([](const LiveRequest& request) { return request.client() == "a"; });
  EXPECT_EQ(removed.size(), 5u);
  EXPECT_EQ(order_.size(), 1);
  EXPECT_EQ(Serve(), "b");
  EXPECT_TRUE(order_.idle());
}

}  // namespace
}  // namespace bastion
