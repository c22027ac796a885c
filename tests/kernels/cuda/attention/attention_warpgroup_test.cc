// Compares attention with the instructions of sm_90a and without them: the bits are the same.
#include "kernels/cuda/simt/warpgroup.h"
#include "tests/kernels/cuda/attention/attention_case.h"

namespace bastion::kernels::cuda {
namespace {

class WarpgroupAttentionTest : public DeviceTest,
                               public testing::WithParamInterface<AttentionShape> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && !HasWarpgroups(device_.capability)) GTEST_SKIP() << "no warpgroups";
  }
};

// Steps of more than 128 packed rows have blocks of two warpgroups. `group`: query heads per kv
// head.
AttentionShape Rows(const std::string& name, int group, int head_dim, std::vector<SpanShape> spans,
                    int window = 0) {
  return {name, 2 * group, 2, head_dim, std::move(spans), window};
}

std::vector<AttentionShape> WarpgroupShapes() {
  std::vector<AttentionShape> shapes;
  for (const int rows : {1, 9, 30, 64, 128}) {
    const std::string number = std::to_string(rows);
    shapes.push_back(Rows("Tree" + number, 4, 128, {{200, rows, Form::kTree}}));
    shapes.push_back(Rows("Path" + number, 1, 64, {{1100, rows, Form::kPath}}));
  }
  for (const int cached : {63, 64, 127, 128, 192, 1023, 1024, 1280}) {
    shapes.push_back(Rows("After" + std::to_string(cached), 2, 64, {{cached, 20, Form::kTree}}));
  }
  for (const int group : {1, 3, 8, 16, 24}) {
    shapes.push_back(Rows("Group" + std::to_string(group), group, 64, {{200, 18, Form::kTree}}));
  }
  for (const int dim : {8, 40, 72, 96, 256}) {
    shapes.push_back(Rows("HeadsOf" + std::to_string(dim), 4, dim, {{140, 12, Form::kTree}}));
  }
  const std::vector<SpanShape> mixed = {{245, 33, Form::kTree},  {0, 1, Form::kChain},
                                        {700, 1, Form::kChain},  {16, 40, Form::kChain},
                                        {333, 8, Form::kBlock},  {130, 3, Form::kTree},
                                        {70, 130, Form::kChain}, {7, 70, Form::kPath}};
  shapes.push_back(Rows("SeveralSequences", 2, 128, mixed));
  shapes.push_back(Rows("SeveralSequencesWithinAWindow", 3, 64, mixed, 100));
  shapes.push_back(Rows("Prompt", 1, 128, {{0, 150, Form::kChain}, {100, 70, Form::kChain}}));
  shapes.push_back(Rows("PromptWithinAWindow", 2, 64, {{400, 90, Form::kChain}}, 150));
  shapes.push_back(Rows("LaterRound", 4, 64, {{126, 30, Form::kTree, 14}}));
  std::vector<SpanShape> folded;
  for (int b = 0; b < 12; ++b) folded.push_back({60 + 20 * b, 15, Form::kTree});
  folded.push_back({1152, 2, Form::kTree});
  shapes.push_back(Rows("MoreRowsThanAreDivided", 2, 64, folded));
  shapes.push_back(Rows("Sinks", 2, 64, {{400, 20, Form::kTree}, {5, 30, Form::kChain}}, 100));
  shapes.back().sinks = 4;
  return shapes;
}

TEST_P(WarpgroupAttentionTest, TheBitsAreThoseWithoutWarpgroups) {
  AttentionCase step(GetParam(), DType::kBF16);
  const std::vector<float> without = step.Run(*stream_, device_.multiprocessors, 80);
  for (const int multiprocessors : {3, device_.multiprocessors}) {
    const std::vector<float> with = step.Run(*stream_, multiprocessors, 90);
    ASSERT_TRUE(SameBits(with.data(), without.data(), without.size()))
        << multiprocessors << " multiprocessors";
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, WarpgroupAttentionTest, testing::ValuesIn(WarpgroupShapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace bastion::kernels::cuda
