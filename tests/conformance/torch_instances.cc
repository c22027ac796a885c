// The engines in process on the portable backend (kernels/torch).
#include "tests/conformance/in_process.h"

namespace bastion::testing {
namespace {

class OnTorch final : public StagesUnderTest {
 public:
  explicit OnTorch(const std::string& folder) : stages_(folder, "torch") {}
  Verifier& verifier() override { return stages_.verifier(); }
  Drafter& drafter() override { return stages_.drafter(); }

 private:
  InProcess stages_;
};

}  // namespace

std::vector<StagesKind> KindsUnderTest() {
  std::vector<StagesKind> kinds = {KindOn<OnTorch>("OnTorch", "gqa2_untied_draft2"),
                                   KindOn<OnTorch>("OnTorchSlidingWindow", "sliding_window")};
  for (StagesKind& kind : kinds) kind.row_invariant = false;
  return kinds;
}

}  // namespace bastion::testing
