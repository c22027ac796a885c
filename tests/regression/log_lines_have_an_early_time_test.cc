// The line "SIGTERM: draining" had the time of the start: the expression that the line is made of
// waited for the signal, and the line took its time before.
#include <string>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(LogLinesHaveAnEarlyTimeTest, ALineHasTheTimeOfItsEvent) {
  absl::Time event;
  const auto wait = [&] {
    absl::SleepFor(absl::Milliseconds(20));
    event = absl::Now();
    return "SIGTERM";
  };
  ::testing::internal::CaptureStderr();
  LOG(INFO) << wait() << ": draining";
  const std::string line = ::testing::internal::GetCapturedStderr();
  const std::string earliest = absl::FormatTime("%m%d %H:%M:%E3S", event, absl::UTCTimeZone());
  EXPECT_GE(line.substr(1, earliest.size()), earliest) << line;
}

}  // namespace
}  // namespace bastion
