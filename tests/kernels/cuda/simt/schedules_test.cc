// Tests that results do not depend on the order in which the emulator runs blocks and threads.
#include <random>

#include "kernels/cuda/product/product.h"
#include "kernels/cuda/simt/emulator.h"
#include "tests/kernels/cuda/choose/choose_test_support.h"
#include "tests/kernels/cuda/choose/walk_test_support.h"

namespace bastion::kernels::cuda {
namespace {

class SchedulesTest : public DeviceTest, public testing::WithParamInterface<uint32_t> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    emulator::SetSchedule(GetParam());
  }
  void TearDown() override { emulator::SetSchedule(0); }
};

TEST_P(SchedulesTest, ChoicesDoNotDependOnTheSchedule) {
  for (const int vocabulary : {31, 9000}) {
    const Races races = RandomRaces(TruncatingRules(vocabulary), vocabulary, 30, 3.0f, 0.25f);
    EXPECT_EQ(DeviceChoices(races, *stream_, 2), OracleChoices(races));
  }
  const Races flat = RandomRaces(TruncatingRules(9000, 1), 9000, 31, 0.1f);
  EXPECT_EQ(DeviceChoices(flat, *stream_), OracleChoices(flat));
}

TEST_P(SchedulesTest, CandidatesDoNotDependOnTheSchedule) {
  const Races races = RandomRaces(std::vector<ChoiceRule>(3), 50000, 32, 3.0f, 0.25f);
  static const Candidates* const first = new Candidates(DeviceCandidates(races, 100, *stream_));
  const Candidates now = DeviceCandidates(races, 100, *stream_);
  EXPECT_EQ(now.tokens, OracleCandidates(races, 100).tokens);
  EXPECT_EQ(now.tokens, first->tokens);
  EXPECT_TRUE(SameBits(now.log_probs.data(), first->log_probs.data(), now.log_probs.size()));
}

TEST_P(SchedulesTest, WalksDoNotDependOnTheSchedule) {
  std::mt19937 random(33);
  std::vector<Tree> trees;
  for (int b = 0; b < 40; ++b) trees.push_back(RandomTree(1 + 2 * b, random));
  trees[7].choices[3] = -1;
  EXPECT_EQ(DeviceWalks(trees, *stream_), HostWalks(trees));
}

TEST_P(SchedulesTest, ProductsDoNotDependOnTheSchedule) {
  constexpr int kRows = 9, kColumns = 136, kDepth = 256;
  const OnDevice<uint16_t> x(ToBf16(RandomFloats(kRows * kDepth, 34)));
  const OnDevice<uint16_t> weight(ToBf16(RandomFloats(kColumns * kDepth, 35)));
  const OnDevice<float> y(MaxProductSums());
  ProductArgs args;
  args.x = x.data();
  args.weight = weight.data();
  args.rows = kRows;
  args.columns = kColumns;
  args.depth = kDepth;
  args.y = y.data();
  const ProductPlan plan = PlanProduct(args, device_);
  Product(args, plan, *stream_);
  Finish();
  std::vector<float> now = y.Read();
  now.resize(static_cast<size_t>(plan.ranges) * kRows * kColumns);
  static const auto* const first = new std::vector<float>(now);
  EXPECT_TRUE(SameBits(now.data(), first->data(), now.size()));
}

TEST_P(SchedulesTest, ExpertsDoNotDependOnTheSchedule) {
  constexpr int kRows = 70, kExperts = 5, kChosen = 2, kColumns = 136, kDepth = 136;
  const TestRows rows({{0, RowMask::kCausal, ChainParents(kRows), std::vector<int32_t>(5), {}}},
                      kRows, 1);
  const OnDevice<float> logits(RandomFloats(kRows * kExperts, 36)), weights(kRows * kChosen);
  const OnDevice<int32_t> experts(kRows * kChosen), begins(kExperts + 1), sources(kRows * kChosen);
  const OnDevice<int32_t> places(kRows * kChosen), counts(size_t{3});
  const OnDevice<ExpertRows> tiles(MaxExpertTiles(kRows, kChosen, kExperts), ExpertRows{});
  const OnDevice<uint32_t> arrived(size_t{1});
  Route({{logits.data(), experts.data(), weights.data(), kRows, kExperts, kChosen, true},
         rows.rows(),
         begins.data(),
         sources.data(),
         places.data(),
         counts.data(),
         tiles.data(),
         counts.data() + 1,
         arrived.data()},
        *stream_);
  const OnDevice<uint16_t> x(ToBf16(RandomFloats(kRows * kDepth, 37)));
  const OnDevice<uint16_t> matrices(ToBf16(RandomFloats(kExperts * kColumns * kDepth, 38)));
  const OnDevice<float> y(kRows * kChosen * kColumns);
  ExpertProductArgs args;
  args.x = x.data();
  args.sources = sources.data();
  args.weight = matrices.data();
  args.tiles = tiles.data();
  args.tile_count = counts.data() + 1;
  args.tile_capacity = 7;
  args.chosen = kChosen;
  args.columns = kColumns;
  args.depth = kDepth;
  args.y = y.data();
  ExpertProduct(args, PlanExperts(args, device_), *stream_);
  Finish();
  static const auto* const first_sources = new std::vector<int32_t>(sources.Read());
  static const auto* const first = new std::vector<float>(y.Read());
  EXPECT_EQ(sources.Read(), *first_sources);
  EXPECT_TRUE(SameBits(y.Read().data(), first->data(), first->size()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulesTest, testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace bastion::kernels::cuda
