#include "orchestrator/schedule/verifier_link.h"

#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"
#include "tests/support/forwarding_verifier.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using testing::FakeDrafter;
using testing::FakeVerifier;

// Counts the calls of a fake verifier.
class CountingVerifier final : public testing::ForwardingVerifier {
 public:
  CountingVerifier() : ForwardingVerifier(&fake) {}

  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    ++calls;
    return ForwardingVerifier::Verify(forest, prompts);
  }

  FakeVerifier fake;
  int calls = 0;
};

TEST(VerifierLinkTest, AFailedCalibrationIsTriedAgainAfterLongerAndLongerPauses) {
  testing::ManualClock clock;
  CountingVerifier verifier;
  FakeDrafter drafter(&verifier.fake);
  verifier.fake.call_error = absl::ResourceExhaustedError("no room for another sequence");
  VerifierLink link({.dims = verifier.Info()->dims, .clock = &clock}, &verifier, &drafter,
                    {[] {}, [](const absl::Status&) {}, [] {}});
  // Every attempt makes one call, which fails.
  const auto attempts_within = [&](absl::Duration time) {
    const int before = verifier.calls;
    for (const absl::Duration end = clock.Now() + time; clock.Now() < end;) {
      EXPECT_FALSE(link.Connect());
      EXPECT_GT(link.pause(), absl::ZeroDuration());
      clock.Advance(link.pause());
    }
    return verifier.calls - before;
  };
  EXPECT_LE(attempts_within(absl::Seconds(2)), 2);
  EXPECT_LE(attempts_within(absl::Seconds(60)), 5);
  EXPECT_LE(attempts_within(absl::Minutes(10)), 20);
  EXPECT_GE(attempts_within(absl::Minutes(1)), 1);
  verifier.fake.call_error.reset();
  EXPECT_FALSE(link.Connect());
  clock.Advance(absl::Seconds(30));
  EXPECT_TRUE(link.Connect());
  EXPECT_EQ(link.pause(), absl::ZeroDuration());
}

}  // namespace
}  // namespace bastion
