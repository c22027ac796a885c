#include "orchestrator/intake/work_limit.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr absl::Duration kNever = absl::InfiniteDuration();
constexpr size_t kBytes = 100;

TEST(WorkLimitTest, NoMoreCallsWorkThanAllowed) {
  WorkLimit limit(2, kBytes);
  std::atomic<int> working{0}, most{0}, done{0};
  std::vector<std::thread> calls;
  for (int i = 0; i < 8; ++i) {
    calls.emplace_back([&] {
      const auto permit = limit.Wait(1, kNever, nullptr);
      ASSERT_TRUE(permit.ok());
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
  WorkLimit limit(1, kBytes);
  const auto permit = limit.Wait(1, kNever, nullptr);
  const auto late = limit.Wait(1, Clock::Real().Now() + absl::Milliseconds(5), nullptr);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(limit.Wait(1, Clock::Real().Now(), nullptr).status()));
}

TEST(WorkLimitTest, AWaitEndsWhenTheClientIsGone) {
  WorkLimit limit(1, kBytes);
  std::optional<absl::StatusOr<WorkLimit::Permit>> permit = limit.Wait(1, kNever, nullptr);
  int asked = 0;
  const auto gone = limit.Wait(1, kNever, [&] { return ++asked > 1; });
  EXPECT_TRUE(absl::IsCancelled(gone.status())) << gone.status();
  permit.reset();
  EXPECT_TRUE(limit.Wait(1, kNever, nullptr).ok());
}

// Tokenizing takes hundreds of bytes of memory for each byte of the text.
TEST(WorkLimitTest, LongTextsWaitForEachOther) {
  WorkLimit limit(8, kBytes);
  auto first = limit.Wait(kBytes / 2 + 1, kNever, nullptr);
  EXPECT_TRUE(limit.Wait(kBytes / 4, kNever, nullptr).ok());
  const absl::Duration soon = Clock::Real().Now() + absl::Milliseconds(5);
  EXPECT_FALSE(limit.Wait(kBytes / 2 + 1, soon, nullptr).ok());
  first = absl::UnknownError("");
  EXPECT_TRUE(limit.Wait(2 * kBytes, kNever, nullptr).ok());
}

TEST(WorkLimitTest, ShortTextsDoNotOvertakeALongOne) {
  WorkLimit limit(8, kBytes);
  auto first = limit.Wait(1, kNever, nullptr);
  std::atomic<bool> waits{false}, works{false};
  std::thread long_text([&] {
    const auto permit = limit.Wait(kBytes, kNever, [&] {
      waits = true;
      return false;
    });
    works = permit.ok();
  });
  while (!waits) std::this_thread::yield();
  const auto late = limit.Wait(1, Clock::Real().Now() + absl::Milliseconds(5), nullptr);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status()));
  EXPECT_FALSE(works);
  first = absl::UnknownError("");
  long_text.join();
  EXPECT_TRUE(works);
}

TEST(WorkLimitTest, ACallerWithManyCallsLeavesTurnsToOthers) {
  const std::vector<WorkCaller> callers = {
      {"host", "a"}, {"host", "a"}, {"host", "b"}, {"other", "c"}, {"host", "a"}};
  WorkLimit limit(1, kBytes);
  auto first = limit.Wait(1, kNever, nullptr, {"host", "a"});
  std::vector<std::string> order;  // Appended to by the call that works.
  std::vector<std::thread> calls;
  std::atomic<size_t> waiting{0};
  for (size_t i = 0; i < callers.size(); ++i) {
    calls.emplace_back([&, i] {
      const auto permit = limit.Wait(
          1, kNever,
          [&, i] {
            if (waiting == i) ++waiting;
            return false;
          },
          callers[i]);
      ASSERT_TRUE(permit.ok()) << permit.status();
      order.push_back(callers[i].client);
    });
    while (waiting <= i) std::this_thread::yield();
  }
  first = absl::UnknownError("");
  for (std::thread& call : calls) call.join();
  EXPECT_THAT(order, ::testing::ElementsAre("c", "b", "a", "a", "a"));
}

TEST(WorkLimitTest, AtLeastOneCallWorks) {
  WorkLimit limit(0, 0);
  EXPECT_TRUE(limit.Wait(1, kNever, nullptr).ok());
}

}  // namespace
}  // namespace bastion
