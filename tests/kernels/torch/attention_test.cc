#include "tests/kernels/attention_test_support.h"
#include "tests/kernels/torch/compared_backends.h"

namespace bastion::kernels {
namespace {

TEST_P(AttentionTest, AgreesWithTheOracleOnRaggedBatchesOfTreesChainsAndBlocks) {
  const RaggedBatch batch(cache_);
  for (const int window : {0, 9}) {
    window_ = window;
    const std::vector<float> query = RandomFloats(batch.positions.size() * width(), 21);
    const std::vector<float> expected = Run(TorchOracle(), batch.spans, batch.positions, query);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      const std::vector<float> actual = Run(backend, batch.spans, batch.positions, query);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 2e-5) << name << " window " << window << " at " << i;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, AttentionShapes());

}  // namespace
}  // namespace bastion::kernels
