#include "common/stages/engine_meter.h"

#include "gtest/gtest.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

const absl::Duration kLook = EngineMeter::kHangLimit / 4;

class EngineMeterTest : public ::testing::Test {
 protected:
  // Looks at the engine for longer than it may make no progress.
  bool HangsAfterLimit() {
    for (int look = 0; look < 6; ++look) {
      clock_.Advance(kLook);
      if (meter_.hangs()) return true;
    }
    return false;
  }

  testing::ManualClock clock_;
  EngineMeter meter_{&clock_};
};

TEST_F(EngineMeterTest, AnIdleEngineDoesNotHang) { EXPECT_FALSE(HangsAfterLimit()); }

TEST_F(EngineMeterTest, ACallWithoutProgressHangs) {
  const EngineMeter::Call call(&meter_);
  EXPECT_FALSE(meter_.hangs());
  EXPECT_TRUE(HangsAfterLimit());
}

TEST_F(EngineMeterTest, ALongCallWithProgressDoesNotHang) {
  const EngineMeter::Call call(&meter_);
  for (int look = 0; look < 12; ++look) {
    clock_.Advance(kLook);
    if (look % 3 == 0) CountProgress();
    EXPECT_FALSE(meter_.hangs()) << look;
  }
}

TEST_F(EngineMeterTest, TheCallAfterAHangMayTakeLongAgain) {
  {
    const EngineMeter::Call call(&meter_);
    ASSERT_FALSE(meter_.hangs());
    ASSERT_TRUE(HangsAfterLimit());
  }
  EXPECT_FALSE(meter_.hangs());
  const EngineMeter::Call call(&meter_);
  clock_.Advance(kLook);
  EXPECT_FALSE(meter_.hangs());
}

}  // namespace
}  // namespace bastion
