// Limits the allocations and instructions of a decode cycle. Unlike times, counts are not noisy.
// The limits are slightly above the current counts. Lower them when a cycle becomes cheaper.
#include <iostream>
#include <vector>

#include "client/inprocess/local_stages.h"
#include "gtest/gtest.h"
#include "orchestrator/cost/calibration.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "tests/orchestrator/policy/simulation.h"
#include "tests/regression/allocation_count.h"
#include "tests/regression/instruction_count.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::Allocations;
using ::bastion::testing::AllocationsSoFar;
using ::bastion::testing::CountInstructions;
using ::bastion::testing::Ladder;
using ::bastion::testing::RandomTable;
using ::bastion::testing::SimulatedDrafter;
using ::bastion::testing::Simulation;

// ---- allocations ----

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
  options.threads = 1;
  const auto stages = LocalStages::Create(options);
  ASSERT_TRUE(stages.ok()) << stages.status();
  Verifier& verifier = (*stages)->verifier();
  CalibrationOptions calibration;
  calibration.row_counts = {1, 4, 16};
  calibration.contexts = {16};
  calibration.repetitions = 1;
  calibration.session = uint64_t{1} << 60;
  const auto table = Calibrate(verifier, Clock::Real(), calibration);
  ASSERT_TRUE(table.ok()) << table.status();
  const TargetInfo target = *verifier.Info();
  CostModel costs = *CostModel::Fit(target, *table);
  SpeculationMemory memory({.vocabulary = target.dims.vocabulary, .table = (*stages)->table()});
  DecodeCycle cycle(target, &(*stages)->drafter(), &verifier, &costs);
  DecodeRequest request;
  request.id = {1, 0};
  for (TokenId token = 100; token < 164; ++token) request.prompt.push_back(token);
  request.sampling.prompt_tokens = 64;
  request.max_tokens = 300;
  DecodeSequence sequence(std::move(request), TreeGrower(*Policy::Parse(GetParam().policy),
                                                         /*greedy=*/true, &costs, &memory));
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
                                           AllocationLimit{"fixed:16", 115},
                                           AllocationLimit{"adaptive", 130},
                                           AllocationLimit{"default", 275}));

// ---- instructions ----

struct InstructionLimit {
  const char* policy;
  int64_t count;  // Per cycle.

  friend std::ostream& operator<<(std::ostream& out, const InstructionLimit& limit) {
    return out << limit.policy;
  }
};

class InstructionsTest : public ::testing::TestWithParam<InstructionLimit> {};

TEST_P(InstructionsTest, ASimulatedCycleStaysWithinItsLimit) {
  const TransitionGains table{RandomTable(4096, 16, 1)};
  Simulation simulation([](int rows) { return 1.0 + 0.06 * rows; }, 0,
                        {.vocabulary = 4096, .table = &table});
  TreeGrower grower = simulation.NewGrower(GetParam().policy);
  const SimulatedDrafter drafter = SimulatedDrafter::Calibrated(Ladder(7, 64, 0.6));
  simulation.Run(grower, drafter, 50);
  constexpr int kCycles = 2;
  const auto counted = CountInstructions([&] { simulation.Run(grower, drafter, kCycles); });
  if (!counted.ok()) GTEST_SKIP() << counted.status();
  const int64_t per_cycle = *counted / kCycles;
  std::cout << GetParam().policy << ": " << per_cycle << " instructions per cycle\n";
  EXPECT_LE(per_cycle, GetParam().count);
}
INSTANTIATE_TEST_SUITE_P(Policies, InstructionsTest,
                         ::testing::Values(InstructionLimit{"fixed:16", 45000},
                                           InstructionLimit{"adaptive", 150000},
                                           InstructionLimit{"default", 430000}));

}  // namespace
}  // namespace bastion
