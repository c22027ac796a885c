#include "tests/conformance/stages_under_test.h"
#include "tests/support/fake_stages.h"

namespace bastion::testing {
namespace {

class FakeStages final : public StagesUnderTest {
 public:
  explicit FakeStages(bool expands_nodes) { drafter_.expands_nodes = expands_nodes; }
  Verifier& verifier() override { return verifier_; }
  Drafter& drafter() override { return drafter_; }

 private:
  FakeVerifier verifier_;
  FakeDrafter drafter_{&verifier_};
};

}  // namespace

std::vector<StagesKind> KindsUnderTest() {
  return {
      {"Fake", [] { return std::make_unique<FakeStages>(/*expands_nodes=*/false); }},
      {"FakeAutoregressive", [] { return std::make_unique<FakeStages>(/*expands_nodes=*/true); }}};
}

}  // namespace bastion::testing
