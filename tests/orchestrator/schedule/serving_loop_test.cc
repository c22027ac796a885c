#include "orchestrator/schedule/serving_loop.h"

#include <functional>
#include <memory>

#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/support/fake_stages.h"

namespace bastion {
namespace {

using testing::FakeDrafter;
using testing::FakeVerifier;
using testing::ToyText;

// Calls a function when a request ends.
class OnEndObserver final : public ServingObserver {
 public:
  void OnCycle(const CycleSummary&, const ServedCycle&) override { ++cycles; }
  void OnEnd(const LiveRequest&, const absl::Status&) override { on_end(); }

  std::function<void()> on_end = [] {};
  int cycles = 0;
};

// Runs the loop on the test's own thread.
class ServingLoopTest : public ::testing::Test {
 protected:
  ServingLoopTest() {
    options_.link.dims = verifier_.Info()->dims;
    maker_.set_observer(&observer_);
  }
  // Runs the loop until it is interrupted. Calls `on_ready` when the loop is ready.
  void Run(std::function<void()> on_ready) {
    loop_ = std::make_unique<ServingLoop>(
        options_, &verifier_, &drafter_,
        [on_ready](bool ready) {
          if (ready) on_ready();
        },
        &observer_);
    EXPECT_FALSE(loop_->stats().ready);
    EXPECT_TRUE(absl::IsUnavailable(loop_->ReadCosts([](const auto&, const auto&) {})));
    loop_->Run();
  }
  std::shared_ptr<RequestStream> Push(const testing::RequestSpec& spec) {
    auto request = maker_.Make(spec);
    auto stream = request->stream();
    EXPECT_TRUE(loop_->queue().Push(std::move(request)).ok());
    return stream;
  }

  FakeVerifier verifier_;
  FakeDrafter drafter_{&verifier_};
  OnEndObserver observer_;
  testing::RequestMaker maker_;
  SchedulerOptions options_;
  std::unique_ptr<ServingLoop> loop_;
};

TEST_F(ServingLoopTest, ServesWhatWaitsUntilItIsInterrupted) {
  std::shared_ptr<RequestStream> stream;
  observer_.on_end = [&] { loop_->queue().Interrupt(); };
  Run([&] { stream = Push({.prompt = {1, 2, 3}, .max_tokens = 20, .policy = "chain"}); });
  OutputDelta delta;
  ASSERT_EQ(stream->WaitForEvent(absl::ZeroDuration(), delta), RequestStream::Event::kDelta);
  EXPECT_EQ(delta.tokens, ToyText({1, 2, 3}, {}, 20));
  EXPECT_LT(observer_.cycles, 20) << "it drafts";
  EXPECT_EQ(loop_->stats().running, 0);
  EXPECT_EQ(verifier_.live_sequences(), 0);
}

TEST_F(ServingLoopTest, AnInterruptFailsTheRequestsThatHaveNotEnded) {
  std::shared_ptr<RequestStream> stream;
  Run([&] {
    stream = Push({});
    loop_->queue().Interrupt();
  });
  OutputDelta delta;
  while (stream->WaitForEvent(absl::ZeroDuration(), delta) == RequestStream::Event::kDelta) {
  }
  EXPECT_TRUE(absl::IsUnavailable(stream->status())) << stream->status();
  EXPECT_EQ(verifier_.live_sequences(), 0);
}

}  // namespace
}  // namespace bastion
