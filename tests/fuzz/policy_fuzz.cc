// The policy grammar. What parses prints as something that parses to the same.
#include "common/base/check.h"
#include "orchestrator/policy/policy.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  const auto policy = bastion::Policy::Parse(input.Rest());
  if (!policy.ok()) return 0;
  const auto again = bastion::Policy::Parse(policy->text());
  CHECK(again.ok()) << again.status();
  CHECK_EQ(again->text(), policy->text());
  return 0;
}
