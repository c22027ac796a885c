// Edge cases of kernels/ops/ops.h, tested on the portable backend in both precisions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/torch/torch_backend.h"
#include "tests/kernels/rowwise_test_support.h"

namespace bastion::kernels {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class TorchEdgeCaseTest : public testing::TestWithParam<const Backend*> {
 protected:
  const Backend& backend() const { return *GetParam(); }
  int32_t ChooseOne(const std::vector<float>& logits, const ChoiceRule& rule) {
    int32_t token = -5;
    backend().choose({logits.data(), &rule, &token, 1, static_cast<int>(logits.size())}, pool_);
    return token;
  }
  ThreadPool pool_{2};
};

TEST_P(TorchEdgeCaseTest, TiesGoToTheLowestId) {
  std::vector<float> logits = RandomFloats(203, 9, 2.0f);
  logits[40] = logits[41] = logits[200] = 50.0f;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 40);
  EXPECT_EQ(ChooseOne({-1, -0.0f, 0.0f, -2}, {0, 1, 1}), 1);
}

TEST_P(TorchEdgeCaseTest, MaskedTokensAreNeverChosen) {
  std::vector<float> logits(100, kMasked);
  logits[57] = -3.0f;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(ChooseOne(logits, {2, seed, 4}), 57);
    EXPECT_EQ(ChooseOne(logits, {2, seed, 4, 10, 0.9f, 0.1f}), 57);
  }
}

TEST_P(TorchEdgeCaseTest, RowsWithOnlyNansOrMaskedLogitsGiveNoToken) {
  for (const float value : {kNan, kMasked}) {
    for (const ChoiceRule& rule :
         {ChoiceRule{0, 0, 0}, ChoiceRule{1, 0, 0}, ChoiceRule{1, 0, 0, 5, 0.9f}}) {
      EXPECT_EQ(ChooseOne(std::vector<float>(64, value), rule), -1);
    }
  }
  EXPECT_EQ(ChooseOne(RandomFloats(64, 20), {1, 1, 1, 0, 1, /*min_p=*/1.5f}), -1);
}

TEST_P(TorchEdgeCaseTest, ANanNeverWins) {
  std::vector<float> logits(100, 1.0f);
  for (int x = 0; x < 100; x += 2) logits[x] = kNan;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 1);
  for (uint64_t seed = 0; seed < 10; ++seed) EXPECT_EQ(ChooseOne(logits, {1, seed, 1}) % 2, 1);
  EXPECT_EQ(ChooseOne(logits, {1, 1, 1, 5}), -1) << "no token of a row with NaNs survives top-k";
}

TEST_P(TorchEdgeCaseTest, CandidatesOfARowWithNansAreInvalid) {
  std::vector<float> logits = RandomFloats(2 * 64, 3);
  logits[64 + 9] = kNan;
  int32_t tokens[8];
  float log_probs[8];
  backend().top_k({logits.data(), nullptr, tokens, log_probs, 2, 64, 4}, pool_);
  for (int k = 0; k < 4; ++k) {
    EXPECT_GE(tokens[k], 0);
    EXPECT_LT(log_probs[k], 0);
    EXPECT_EQ(tokens[4 + k], -1);
    EXPECT_TRUE(std::isnan(log_probs[4 + k]));
  }
}

TEST_P(TorchEdgeCaseTest, Int8LinearGivesNansForNonFiniteRowsAndZerosForZeroRows) {
  const int outputs = 40, depth = 33;
  const RandomMatrix matrix(WeightFormat::kInt8, outputs, depth, 2);
  std::vector<float> x = RandomFloats(size_t(4) * depth, 1), y(size_t(4) * outputs, 1.0f);
  x[5] = kNan;
  x[depth + 7] = std::numeric_limits<float>::infinity();
  std::fill_n(x.begin() + 2 * depth, depth, 0.0f);
  backend().linear({x.data(), matrix.packed, y.data(), 4, outputs, false}, pool_);
  for (int n = 0; n < outputs; ++n) {
    EXPECT_TRUE(std::isnan(y[n]));
    EXPECT_TRUE(std::isnan(y[outputs + n]));
    EXPECT_EQ(y[2 * outputs + n], 0.0f);
    EXPECT_TRUE(std::isfinite(y[3 * outputs + n]));
  }
}

TEST_P(TorchEdgeCaseTest, LinearDoesNotWriteToThePaddingBetweenRows) {
  const int rows = 3, outputs = 33, depth = 20, stride = outputs + 5;
  const RandomMatrix matrix(WeightFormat::kF32, outputs, depth, 2);
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 1);
  std::vector<float> y(size_t(rows) * stride, 7.0f);
  backend().linear({x.data(), matrix.packed, y.data(), rows, stride, false}, pool_);
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < stride; ++n) {
      double expected = n < outputs ? 0 : 7;
      for (int k = 0; n < outputs && k < depth; ++k) {
        expected += double{x[r * depth + k]} * matrix.element(n, k);
      }
      EXPECT_NEAR(y[r * stride + n], expected, 1e-6);
    }
  }
}

TEST_P(TorchEdgeCaseTest, EmbedGathersRowsOfBothTypes) {
  const std::vector<float> table = RandomFloats(10 * 24, 3);
  const std::vector<uint16_t> table16 = ToBf16(table);
  const int32_t tokens[] = {9, 0, 9};
  std::vector<float> y(3 * 24);
  backend().embed({tokens, table.data(), DType::kF32, y.data(), 3, 24}, pool_);
  EXPECT_TRUE(SameBits(y.data(), table.data() + 9 * 24, 24));
  EXPECT_TRUE(SameBits(y.data() + 24, table.data(), 24));
  backend().embed({tokens, table16.data(), DType::kBF16, y.data(), 3, 24}, pool_);
  EXPECT_EQ(y[5], Bf16ToFloat(table16[9 * 24 + 5]));
}

TEST_P(TorchEdgeCaseTest, OverlappingMovesReadAllRowsBeforeWriting) {
  ExpectCyclicMoves(backend());
}

TEST_P(TorchEdgeCaseTest, TheSameCallGivesTheSameBits) {
  const RandomMatrix matrix(WeightFormat::kBF16, 500, 320, 2);
  const std::vector<float> x = RandomFloats(size_t(9) * 320, 1);
  std::vector<float> first(size_t(9) * 500), again(first.size());
  backend().linear({x.data(), matrix.packed, first.data(), 9, 500, false}, pool_);
  for (int i = 0; i < 20; ++i) {
    backend().linear({x.data(), matrix.packed, again.data(), 9, 500, false}, pool_);
    EXPECT_TRUE(SameBits(first.data(), again.data(), first.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TorchEdgeCaseTest,
                         testing::Values(&TorchBackend(), &TorchOracle()), [](const auto& info) {
                           return info.param == &TorchOracle() ? "Double" : "Single";
                         });

}  // namespace
}  // namespace bastion::kernels
