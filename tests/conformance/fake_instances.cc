#include "tests/conformance/stages_under_test.h"
#include "tests/support/fake_stages.h"

namespace bastion::testing {
namespace {

class FakeStages final : public StagesUnderTest {
 public:
  Verifier& verifier() override { return verifier_; }
  Drafter& drafter() override { return drafter_; }

 private:
  FakeVerifier verifier_;
  FakeDrafter drafter_{&verifier_};
};

}  // namespace

std::vector<StagesKind> KindsUnderTest() {
  return {{"Fake", [] { return std::make_unique<FakeStages>(); }}};
}

}  // namespace bastion::testing
