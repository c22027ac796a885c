// The stages that the conformance suites test: a verifier and its drafter, created for every test.
// All binaries contain the same suites; each binary defines its own kinds of stages.
#ifndef BASTION_TESTS_CONFORMANCE_STAGES_UNDER_TEST_H_
#define BASTION_TESTS_CONFORMANCE_STAGES_UNDER_TEST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/stages/stages.h"

namespace bastion::testing {

class StagesUnderTest {
 public:
  virtual ~StagesUnderTest() = default;
  virtual Verifier& verifier() = 0;
  virtual Drafter& drafter() = 0;
};

struct StagesKind {
  std::string name;
  std::function<std::unique_ptr<StagesUnderTest>()> make;
  // The kernels are row invariant (kernels/ops/ops.h): a row's result does not depend on the other
  // rows.
  bool row_invariant = true;
  // The drafter reads features of the target.
  bool features = true;
  // The drafter's nodes read states of their parents, so their drafts differ from those of the same
  // tokens as committed text.
  bool states = false;
};

// Defined in the *_instances.cc file of the binary.
[[nodiscard]] std::vector<StagesKind> KindsUnderTest();

}  // namespace bastion::testing

#endif  // BASTION_TESTS_CONFORMANCE_STAGES_UNDER_TEST_H_
