// Canceled requests stayed in the queue until a slot became free. A client that submitted and
// canceled as many requests as the queue holds had all other requests refused.
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using CanceledRequestsFillQueueTest = testing::SchedulerTest;

TEST_F(CanceledRequestsFillQueueTest, CanceledRequestsDoNotRefuseANewOne) {
  options_.max_running = 16;
  StartAndAwaitReady();
  verifier_.Hold(true);  // The slots stay taken.
  std::vector<std::shared_ptr<RequestStream>> running;
  for (int i = 0; i < 17; ++i) running.push_back(Submit({.max_tokens = 200}));
  ASSERT_TRUE(Await([&] { return !verifier_.opened().empty(); }));
  for (int i = 0; i < options_.max_waiting; ++i) {
    const auto stream = Submit({});
    scheduler_->Cancel(*stream);
    EXPECT_EQ(stream->status(), LiveRequest::CanceledError());
  }
  EXPECT_LE(scheduler_->stats().waiting, 17);
  const auto honest = Submit({.prompt = {5}});
  verifier_.Hold(false);
  EXPECT_EQ(testing::ReadAll(*honest).tokens, testing::ToyText({5}, {}, 20));
}

}  // namespace
}  // namespace bastion
