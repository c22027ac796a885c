#include "orchestrator/serve/work_limit.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr absl::Duration kNever = absl::InfiniteDuration();

TEST(WorkLimitTest, NoMoreCallsWorkThanAllowed) {
  WorkLimit limit(2);
  std::atomic<int> working{0}, most{0}, done{0};
  std::vector<std::thread> calls;
  for (int i = 0; i < 8; ++i) {
    calls.emplace_back([&] {
      const auto turn = limit.Wait(kNever, nullptr);
      ASSERT_TRUE(turn.ok());
      const int now = ++working;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      absl::SleepFor(absl::Milliseconds(2));
      --working;
      ++done;
    });
  }
  for (std::thread& call : calls) call.join();
  EXPECT_LE(most, 2);
  EXPECT_EQ(done, 8);
}

TEST(WorkLimitTest, AWaitEndsAtItsDeadline) {
  WorkLimit limit(1);
  const auto turn = limit.Wait(kNever, nullptr);
  const auto late = limit.Wait(Clock::Real().Now() + absl::Milliseconds(5), nullptr);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(limit.Wait(Clock::Real().Now(), nullptr).status()));
}

TEST(WorkLimitTest, AWaitEndsWhenTheClientIsGone) {
  WorkLimit limit(1);
  std::optional<absl::StatusOr<WorkLimit::Turn>> turn = limit.Wait(kNever, nullptr);
  int asked = 0;
  const auto gone = limit.Wait(kNever, [&] { return ++asked > 1; });
  EXPECT_TRUE(absl::IsCancelled(gone.status())) << gone.status();
  turn.reset();
  EXPECT_TRUE(limit.Wait(kNever, nullptr).ok());
}

TEST(WorkLimitTest, AtLeastOneCallWorks) {
  WorkLimit limit(0);
  EXPECT_TRUE(limit.Wait(kNever, nullptr).ok());
}

}  // namespace
}  // namespace bastion
