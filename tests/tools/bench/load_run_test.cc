#include "tools/bench/load_run.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

PromptMeasurement EndedRequest(double ended, const std::vector<Delta>& deltas) {
  PromptMeasurement request;
  request.ended = ended;
  request.deltas = deltas;
  return request;
}

TEST(LoadRunTest, AnAppendedRunBeginsWhenTheFirstOneEnded) {
  LoadRun run = {{EndedRequest(2, {{1, 1}, {2, 1}})}};
  Append({{EndedRequest(3, {{1.5, 1}, {3, 1}})}, 2}, &run);
  ASSERT_EQ(run.requests.size(), 2u);
  EXPECT_EQ(run.requests[1].arrived, 2);
  EXPECT_EQ(run.requests[1].deltas[0].at, 3.5);
  EXPECT_EQ(run.seconds(), 5);
  EXPECT_EQ(run.rejected, 2);
}

TEST(LoadRunTest, ReliabilityIsAddedUp) {
  LoadRun run, more;
  run.reliability.before.Observe(0.25, true);
  more.reliability.before.Observe(0.25, false);
  Append(more, &run);
  EXPECT_EQ(run.reliability.before.count(), 2);
}

}  // namespace
}  // namespace bastion
