// The engines in process on the portable backend (kernels/torch).
#include "tests/conformance/in_process.h"

namespace bastion::testing {
namespace {

class OnTorch final : public InProcess {
 public:
  explicit OnTorch(const std::string& folder) : InProcess({.folder = folder, .backend = "torch"}) {}
};

}  // namespace

std::vector<StagesKind> KindsUnderTest() {
  std::vector<StagesKind> kinds = {KindOn<OnTorch>("OnTorch", "gqa2_untied_draft2"),
                                   KindOn<OnTorch>("OnTorchSlidingWindow", "sliding_window")};
  for (StagesKind& kind : kinds) kind.row_invariant = false;
  return kinds;
}

}  // namespace bastion::testing
