// The masks and losses of SpecBlock's blocks equal examples that were worked out by hand.
#include "tools/train/models/block_loss.h"
// After torch.h.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "drafter_service/draft/rank_head.h"

namespace bastion::train {
namespace {

using Numbers = std::vector<double>;

// [M, N, K] int64
at::Tensor Places(const std::vector<int64_t>& values, int64_t blocks, int64_t anchors) {
  return at::tensor(values, at::kLong).view({blocks, anchors, -1});
}

Numbers ValuesOf(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

void ExpectNear(const at::Tensor& tensor, const Numbers& expected) {
  const Numbers values = ValuesOf(tensor);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
}

TEST(BlockLossTest, APlaceIsValidWhileThePlacesBeforeItAreRight) {
  const at::Tensor right = Places({1, 1, 0, 1,  //
                                   0, 1, 1, 1},
                                  1, 2)
                               .to(at::kBool);
  EXPECT_EQ(ValuesOf(ValidPrefix(right, {}, false)), (Numbers{1, 1, 1, 0,  //
                                                              1, 0, 0, 0}));
}

TEST(BlockLossTest, ALaterBlockBeginsValidOrWithTheMaskOfItsStart) {
  const at::Tensor right = Places({1, 1, 0, 1, 0, 1, 1, 1,   // Block 1 of both anchors.
                                   1, 0, 1, 1, 1, 1, 1, 0,   // Block 2 starts from place 3.
                                   0, 1, 1, 1, 1, 1, 0, 1},  // Block 3 starts from place 2.
                                  3, 2)
                               .to(at::kBool);
  EXPECT_EQ(ValuesOf(ValidPrefix(right, {3, 2}, false)), (Numbers{1, 1, 1, 0, 1, 0, 0, 0,  //
                                                                  1, 1, 0, 0, 1, 1, 1, 1,  //
                                                                  1, 0, 0, 0, 1, 1, 1, 0}));
  EXPECT_EQ(ValuesOf(ValidPrefix(right, {3, 2}, true)), (Numbers{1, 1, 1, 0, 1, 0, 0, 0,  //
                                                                 1, 1, 0, 0, 0, 0, 0, 0,  //
                                                                 1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(BlockLossTest, PlacesShareTheWeightOfTheirColumn) {
  const at::Tensor counts = Places({1, 1, 0, 0, 1, 0, 0, 0}, 1, 2).to(at::kBool);
  // Columns 3 and 4 are empty.
  ExpectNear(PlaceWeights(counts, 1), {0.25, 0.5, 0, 0, 0.25, 0, 0, 0});
  ExpectNear(PlaceWeights(counts, 0.8), {0.5 / 1.8, 0.8 / 1.8, 0, 0, 0.5 / 1.8, 0, 0, 0});
  const at::Tensor two = Places({1, 1, 1, 0, 1, 0, 1, 0}, 2, 2).to(at::kBool);
  const double third = 1 / 3.0;
  ExpectNear(PlaceWeights(two, 1), {third / 2, third, third / 2, 0, third / 2, 0, third / 2, 0});
  ExpectNear(PlaceWeights(at::zeros_like(two), 1), Numbers(8, 0));
}

TEST(BlockLossTest, APlaceCountsAtMostEightTimesAsMuchAsAFirstPlace) {
  // All of 16 anchors count in column 1, four in column 2, and one in column 3.
  std::vector<int64_t> counts(48, 0);
  for (int anchor = 0; anchor < 16; ++anchor) {
    counts[3 * anchor] = 1;
    counts[3 * anchor + 1] = anchor < 4;
    counts[3 * anchor + 2] = anchor < 1;
  }
  const at::Tensor weights = PlaceWeights(Places(counts, 1, 16).to(at::kBool), 1);
  const double sum = 1 + 1 + 0.5;
  ExpectNear(weights[0][0], {1 / 16.0 / sum, 1 / 4.0 / sum, 1 / 2.0 / sum});
}

TEST(BlockLossTest, RanksHaveTheClassesOfThePaper) {
  const at::Tensor ranks = at::tensor({0, 1, 2, 4, 5, 10, 11, 300}, at::kLong);
  EXPECT_EQ(ValuesOf(RankClasses(ranks)), (Numbers{-1, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(BlockLossTest, LabelsAreRankedAmongTheColumns) {
  const at::Tensor identity = at::eye(4);
  // Tokens 0 to 3. Token 1 has no column.
  const at::Tensor columns = at::tensor({0, -1, 1, 2}, at::kLong);
  const at::Tensor teacher = at::tensor({9., 0., 0., 0.,  //
                                         0., 9., 0., 0.,  //
                                         0., 0., 9., 0.,  //
                                         0., 0., 0., 9.},
                                        at::kFloat)
                                 .view({4, 4});
  const at::Tensor rows = at::tensor({1., 3., 2.,  //
                                      1., 3., 2.,  //
                                      2., 2., 1.,  //
                                      2., 1., 3.},
                                     at::kFloat)
                              .view({4, 3});
  const Ranking ranking = RankLabels({rows, at::eye(3), teacher, identity, columns, /*top=*/2});
  EXPECT_EQ(ValuesOf(ranking.labels), (Numbers{0, -1, 1, 2}));
  // Row 2 has equal logits: the lower column comes first.
  EXPECT_EQ(ValuesOf(ranking.ranks), (Numbers{3, 0, 2, 1}));
  EXPECT_EQ(ValuesOf(ranking.top), (Numbers{3, 2, 3, 2, 2, 2, 3, 2}));
}

TEST(BlockLossTest, RankFeaturesAreTheEngines) {
  for (const int count : {20, 7, 1}) {
    at::manual_seed(count);
    const at::Tensor top = std::get<0>(at::randn({5, count}).mul(3).sort(-1, /*descending=*/true));
    const at::Tensor features = RankFeatures(top);
    ASSERT_EQ(features.sizes(), (std::vector<int64_t>{5, kRankFeatures}));
    const at::Tensor log_p =
        at::log_softmax(top, -1).sub(1.5).contiguous();  // They add up to less than 1.
    for (int64_t row = 0; row < 5; ++row) {
      std::vector<float> expected(kRankFeatures);
      drafter::RankFeatures(log_p[row].data_ptr<float>(), count, expected.data());
      for (int i = 0; i < kRankFeatures; ++i) {
        EXPECT_NEAR(features[row][i].item<float>(), expected[i], 1e-5) << count << " " << i;
      }
    }
  }
}

// Logits that make each estimate e times as probable as each other class.
at::Tensor LogitsFor(const std::vector<int64_t>& estimates) {
  return at::one_hot(at::tensor(estimates, at::kLong), kRankClasses)
      .to(at::kFloat)
      .view({1, 2, 4, kRankClasses});
}

// The cross-entropies of such logits.
const double kRight = std::log(std::exp(1.0) + 3) - 1, kWrong = std::log(std::exp(1.0) + 3);

TEST(BlockLossTest, ThePlainRankLossIsTheMeanOfThePlacesThatCount) {
  const at::Tensor logits = LogitsFor({0, 0, 1, 3,  //
                                       2, 0, 0, 0});
  const at::Tensor classes = Places({0, 1, 1, 3,  //
                                     1, 0, 0, -1},
                                    1, 2);
  const at::Tensor counts = Places({1, 1, 1, 0, 1, 0, 0, 0}, 1, 2).to(at::kBool);
  ExpectNear(PlainRankLoss(logits, classes, counts), {(2 * kRight + 2 * kWrong) / 4});
  // The losses of blocks are added. A block without places adds nothing.
  ExpectNear(PlainRankLoss(at::cat({logits, logits}), at::cat({classes, classes}),
                           at::cat({counts, at::zeros_like(counts)})),
             {(2 * kRight + 2 * kWrong) / 4});
}

TEST(BlockLossTest, TheOrdinalRankLossIsThatOfTheAuthors) {
  const at::Tensor logits = LogitsFor({0, 0, 2, 3,  //
                                       2, 1, 0, 0});
  // Anchor 1 ends after place 2, where class 2 was estimated as 0. Anchor 2 ends before place 3,
  // whose label has no column.
  const at::Tensor classes = Places({0, 2, 2, 3,  //
                                     2, 1, -1, 0},
                                    1, 2);
  // The wanted distributions: 1 / (1 + |c - r| + max(r - c, 0))².
  const double zero = 1 + 1 / 4.0 + 1 / 9.0 + 1 / 16.0;
  const double one = 1 / 9.0 + 1 + 1 / 4.0 + 1 / 9.0;
  const double two = 1 / 25.0 + 1 / 9.0 + 1 + 1 / 4.0;
  // Only the estimate has a logit: the cross-entropy is kWrong minus the wanted share of it.
  const double first = kWrong - 1 / zero;         // Weight 1.
  const double second = kWrong - 1 / 25.0 / two;  // Class 2, estimated as 0: weight 1 + 2 + 2.
  const double third = kWrong - 1 / two;          // Weight 1.
  const double fourth = kWrong - 1 / one;         // Weight 1.
  ExpectNear(OrdinalRankLoss(logits, classes), {(first + 5 * second + third + fourth) / 8});
}

TEST(BlockLossTest, FrequentClassesCountLess) {
  // 40 anchors with class 0, which is estimated as 1, and one with class 3, estimated as 1.
  std::vector<int64_t> classes(40, 0), estimates(41, 1);
  classes.push_back(3);
  const at::Tensor logits = at::one_hot(at::tensor(estimates, at::kLong), kRankClasses)
                                .to(at::kFloat)
                                .view({1, 41, 1, kRankClasses});
  const double zero = 1 + 1 / 4.0 + 1 / 9.0 + 1 / 16.0;
  const double three = 1 / 49.0 + 1 / 25.0 + 1 / 9.0 + 1;
  const double common = kWrong - 1 / 4.0 / zero, rare = kWrong - 1 / 25.0 / three;
  // Class 0: 40 · 10 / 40 · (1 + 1). Class 3: 1 + 2 + 2.
  ExpectNear(OrdinalRankLoss(logits, Places(classes, 1, 41)), {(20 * common + 5 * rare) / 25});
}

}  // namespace
}  // namespace bastion::train
