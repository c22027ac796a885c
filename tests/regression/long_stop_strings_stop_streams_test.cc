// Stop strings were compared with the text byte by byte, again for every token. Sixteen stop
// strings of 240 KB that the text almost matched stopped all streams for seconds.
#include "gtest/gtest.h"
#include "orchestrator/text/stop_strings.h"

namespace bastion {
namespace {

// The quadratic search needs about 10^13 comparisons for this, which is hours.
TEST(LongStopStringsStopStreamsTest, ATextThatAlmostMatchesCostsLinearTime) {
  constexpr int kBytes = 240000;
  std::vector<std::string> stops;
  for (int i = 0; i < 16; ++i) stops.push_back(std::string(kBytes - i, 'a') + "b");
  StopStrings matcher = *StopStrings::Create(stops);
  std::string passed;
  for (int i = 0; i < 2 * kBytes; ++i) passed += matcher.Push("a");
  EXPECT_EQ(passed.size(), static_cast<size_t>(kBytes));
  passed += matcher.Push("b");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.match(), stops[0]);
  EXPECT_EQ(passed, std::string(kBytes, 'a'));
}

}  // namespace
}  // namespace bastion
