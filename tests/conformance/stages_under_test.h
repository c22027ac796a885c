// What the conformance suites run on: a verifier and the drafter that belongs to it, made anew for
// every test. Each binary lists its own kinds; the suites are the same files in all of them.
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
  // The kernels are row invariant (kernels/ops.h): the same rows in other calls give the same bits.
  bool row_invariant = true;
};

// Defined by the binary's instances file.
[[nodiscard]] std::vector<StagesKind> KindsUnderTest();

}  // namespace bastion::testing

#endif  // BASTION_TESTS_CONFORMANCE_STAGES_UNDER_TEST_H_
