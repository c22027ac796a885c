// Compares drafters that predict all positions in one pass over features, P-EAGLE and Medusa, with
// simple implementations (parallel_goldens.py, medusa_goldens.py), in fp32 on tiny random
// checkpoints: over three cycles, on the CPU and on a GPU.
#include "tests/parity/stateful_parity_fixture.h"

namespace bastion {
namespace {

class OnePassParityTest : public testing::StatefulParityFixture {
 protected:
  void ExpectAllDrafts() {
    EXPECT_FALSE(engine_->info().expands_nodes);
    const std::vector<Frontier> frontiers = Frontiers();
    for (size_t i = 0; i < frontiers.size(); ++i) {
      const std::vector<float> logits = golden_.Floats("marginal_logits_" + std::to_string(i));
      // Paths other than the root's get nothing.
      const std::vector<Marginals> drafted = Expand(frontiers[i], {{3}, {}, {4, 5}});
      EXPECT_TRUE(drafted[0].empty() && drafted[2].empty());
      const Marginals& marginals = drafted[1];
      ASSERT_EQ(marginals.positions, engine_->info().positions);
      ASSERT_EQ(logits.size(), marginals.positions * ids_.size());
      for (int k = 0; k < marginals.positions; ++k) {
        ExpectReference(marginals, k, logits.data() + k * ids_.size());
      }
      EXPECT_EQ(Expand(frontiers[i], {{}})[0], marginals) << "the root is drafted again";
      EXPECT_TRUE(Expand(frontiers[i], {{3}})[0].empty());
    }
  }
};

TEST_P(OnePassParityTest, DraftsMatchTheReferenceOnTheCpu) {
  OpenOnCpu();
  ExpectAllDrafts();
}

TEST_P(OnePassParityTest, DraftsMatchTheReferenceOnAGpu) {
  OpenOnGpu();
  if (engine_ != nullptr) ExpectAllDrafts();
}

INSTANTIATE_TEST_SUITE_P(ParallelEagle, OnePassParityTest,
                         ::testing::ValuesIn(testing::ParallelEagleGoldens()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Medusa, OnePassParityTest, ::testing::ValuesIn(testing::MedusaGoldens()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
