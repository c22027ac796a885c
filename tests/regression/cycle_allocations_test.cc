// Limits the allocations of a decode cycle. Unlike times, counts are not noisy. The limits are
// slightly above the current counts. Lower them when a cycle becomes cheaper.
#include <iostream>

#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/regression/allocation_count.h"
#include "tests/support/forwarding_verifier.h"
#include "tests/support/linear_costs.h"
#include "tests/support/manual_clock.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

using ::bastion::testing::Allocations;
using ::bastion::testing::AllocationsSoFar;
using ::bastion::testing::ManualClock;

// A verifier that reports the times of LinearTable(), so that the planner decides the same on every
// machine. Rows are cheap by this table, so trees are large.
class FixedTimes final : public testing::ForwardingVerifier {
 public:
  using ForwardingVerifier::ForwardingVerifier;

  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    absl::StatusOr<VerifyResult> result = ForwardingVerifier::Verify(forest, prompts);
    if (!result.ok()) return result;
    TimingTrace fixed;
    fixed.rows = result->trace.rows;
    fixed.contexts = result->trace.contexts;
    fixed.forward = absl::Milliseconds(10) + fixed.rows * absl::Microseconds(100);
    result->trace = fixed;
    return result;
  }
};

struct AllocationLimit {
  const char* policy;
  int count;  // Per cycle.

  friend std::ostream& operator<<(std::ostream& out, const AllocationLimit& limit) {
    return out << limit.policy;
  }
};

class AllocationsTest : public ::testing::TestWithParam<AllocationLimit> {};

TEST_P(AllocationsTest, ACycleInProcessStaysWithinItsLimit) {
  const std::string models = BASTION_SOURCE_DIR "/deploy/demo_model/";
  LocalOptions options;
  options.target_folder = models + "target";
  options.drafter_folder = models + "drafter";
  options.device.threads = 1;
  const auto stages = LocalStages::Create(options);
  ASSERT_TRUE(stages.ok()) << stages.status();
  FixedTimes verifier(&(*stages)->verifier());
  const TargetInfo target = *verifier.Info();
  CostModel costs = *CostModel::Fit(target, testing::LinearTable());
  costs.draft().Observe({1, absl::Milliseconds(1)});
  const ManualClock clock;  // Does not move.
  SharedLearning memory({.vocabulary = target.dims.vocabulary, .table = (*stages)->table()});
  DecodeCycle cycle(target, &(*stages)->drafter(), &verifier, &costs, &clock);
  DecodeRequest request;
  request.id = {1, 0};
  std::vector<TokenId> prompt;
  for (TokenId token = 100; token < 164; ++token) prompt.push_back(token);
  request.prompt = std::move(prompt);
  request.sampling.prompt_tokens = 64;
  request.max_tokens = 300;
  DecodeSequence sequence(
      std::move(request),
      Policy::Parse(GetParam().policy)->NewRequest(/*greedy=*/true, &costs, &memory));
  cycle.Open(sequence);
  while (cycle.Prefill(sequence, 4096)) {
  }
  const auto step = [&] {
    ASSERT_TRUE(cycle.Step({&sequence}).ok());
    ASSERT_TRUE(sequence.status().ok()) << sequence.status();
    ASSERT_FALSE(sequence.done());
  };
  for (int i = 0; i < 10; ++i) step();
  constexpr int kCycles = 20;
  const Allocations before = AllocationsSoFar();
  for (int i = 0; i < kCycles; ++i) step();
  const Allocations after = AllocationsSoFar();
  const double count = static_cast<double>(after.count - before.count) / kCycles;
  const double bytes = static_cast<double>(after.bytes - before.bytes) / kCycles;
  std::cout << GetParam().policy << ": " << count << " allocations, " << bytes
            << " bytes per cycle\n";
  EXPECT_LE(count, GetParam().count);
  cycle.Close(sequence, (*stages)->drafter());
}
INSTANTIATE_TEST_SUITE_P(Policies, AllocationsTest,
                         ::testing::Values(AllocationLimit{"ar", 40},
                                           AllocationLimit{"fixed:16", 105},
                                           AllocationLimit{"adaptive", 165},
                                           AllocationLimit{"default", 235}));

}  // namespace
}  // namespace bastion
