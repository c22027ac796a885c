// Compares the engine on the portable backend, in both precisions, with `transformers` and with the
// engine on the CPU kernels, in fp32 on tiny random checkpoints.
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/torch/torch_backend.h"
#include "tests/parity/parity_engine.h"

namespace bastion {
namespace {

class TorchParityTest
    : public ::testing::TestWithParam<std::tuple<std::string, const kernels::Backend*>> {
 protected:
  testing::ParityEngine cpu_{std::get<0>(GetParam()), kernels::CpuBackend()};
  testing::ParityEngine torch_{std::get<0>(GetParam()), *std::get<1>(GetParam())};
};

TEST_P(TorchParityTest, TargetLogitsAndFeaturesMatchTransformers) {
  nn::PageTable table;
  const std::vector<float> logits = torch_.Prefill(torch_.tokens(), torch_.tokens().size(), table);
  testing::ExpectParity(torch_.target().Features().data(), torch_.golden().Floats("features"),
                        "features");
  testing::ExpectParity(logits.data(), torch_.golden().Floats("logits"), "logits");
}

TEST_P(TorchParityTest, TreeLogitsMatchTheCpuEngine) {
  nn::PageTable table, cpu_table;
  (void)torch_.Prefill(torch_.tokens(), 7, table);
  (void)cpu_.Prefill(cpu_.tokens(), 7, cpu_table);
  const std::vector<float> logits = torch_.TreeLogits(torch_.tree(), table);
  const std::vector<float> expected = cpu_.TreeLogits(cpu_.tree(), cpu_table);
  ASSERT_EQ(logits.size(), expected.size());
  testing::ExpectParity(logits.data(), expected, "tree logits");
  testing::ExpectParity(logits.data(), torch_.golden().Floats("tree_logits"), "tree logits");
}

using TorchDraftParityTest = TorchParityTest;

TEST_P(TorchDraftParityTest, DrafterLogitsMatchTheCpuEngine) {
  std::vector<std::vector<float>> expected;
  const size_t size = cpu_.golden().Floats("marginal_logits_0").size();
  cpu_.ForEachDraft([&](const std::string&, const float* logits) {
    expected.emplace_back(logits, logits + size);
  });
  ASSERT_FALSE(expected.empty());
  torch_.ForEachDraft([&](const std::string& round, const float* logits) {
    testing::ExpectParity(logits, expected[std::stoi(round)], "marginal logits");
  });
}

const auto kBackends = ::testing::Values(&kernels::TorchBackend(), &kernels::TorchOracle());

std::string NameOf(const ::testing::TestParamInfo<TorchParityTest::ParamType>& info) {
  const bool oracle = std::get<1>(info.param) == &kernels::TorchOracle();
  return std::get<0>(info.param) + (oracle ? "_double" : "_single");
}

INSTANTIATE_TEST_SUITE_P(Goldens, TorchParityTest,
                         ::testing::Combine(::testing::ValuesIn(testing::GoldenCases()), kBackends),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Goldens, TorchDraftParityTest,
                         ::testing::Combine(::testing::ValuesIn(testing::GoldenPairs()), kBackends),
                         NameOf);

}  // namespace
}  // namespace bastion
