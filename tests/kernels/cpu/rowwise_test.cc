#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/rowwise_test_support.h"

namespace bastion::kernels {
namespace {

TEST(RmsNormTest, NormalizesConstantRowsOfAnyWidth) {
  ThreadPool pool(2);
  const int rows = 5;
  for (const int width : {1, 15, 16, 64, 100, 320}) {
    const std::vector<float> weight = RandomFloats(width, 2);
    std::vector<float> x(rows * width, 3.0f), y(x.size());
    std::fill_n(x.begin() + width, width, 0.0f);
    std::fill_n(x.begin() + 2 * width, width, -4.0f);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().rms_norm({x.data(), weight.data(), y.data(), rows, width, 7.0f}, pool);
      for (int i = 0; i < width; ++i) {
        // √(9 + 7) is 4, and √(16 + 7) is 4.7958….
        EXPECT_NEAR(y[i], 0.75f * weight[i], 1e-6) << name;
        EXPECT_EQ(y[width + i], 0.0f) << name;
        EXPECT_NEAR(y[2 * width + i], -0.8340577f * weight[i], 1e-6) << name;
        EXPECT_EQ(y[3 * width + i], y[i]) << name;
      }
    });
  }
}

TEST(SiluMulTest, AppliesClosedOpenAndPartlyOpenGates) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100}) {
    const std::vector<float> up = RandomFloats(width, 1, 3.0f);
    const float gates[] = {-100.0f, 0.0f, 100.0f, 1.0f};
    std::vector<float> gate_up, y(4 * width);
    for (const float gate : gates) {
      gate_up.insert(gate_up.end(), width, gate);
      gate_up.insert(gate_up.end(), up.begin(), up.end());
    }
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().silu_mul({gate_up.data(), y.data(), 4, width}, pool);
      for (int i = 0; i < width; ++i) {
        EXPECT_NEAR(y[i], 0, 1e-30) << name;
        EXPECT_EQ(y[width + i], 0) << name;
        EXPECT_NEAR(y[2 * width + i], 100 * up[i], 1e-4 * std::abs(up[i])) << name;
        EXPECT_NEAR(y[3 * width + i], 0.7310586f * up[i], 1e-5) << name;  // 1 / (1 + 1 / e)
      }
    });
  }
}

// Rows of 1, 2, …, width have mean (width + 1) / 2 and variance (width² − 1) / 12.
TEST(LayerNormTest, NormalizesRisingRowsOfAnyWidth) {
  ThreadPool pool(2);
  for (const int width : {2, 15, 16, 64, 100, 320}) {
    const std::vector<float> weight = RandomFloats(width, 2), bias = RandomFloats(width, 3);
    std::vector<float> x(2 * width, -7.0f), y(x.size());
    for (int i = 0; i < width; ++i) x[i] = static_cast<float>(i + 1);
    const double deviation = std::sqrt((static_cast<double>(width) * width - 1) / 12 + 0.5);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().layer_norm({x.data(), weight.data(), bias.data(), y.data(), 2, width, 0.5f},
                              pool);
      for (int i = 0; i < width; ++i) {
        const double normed = (i + 1 - (width + 1) / 2.0) / deviation;
        EXPECT_NEAR(y[i], normed * weight[i] + bias[i], 2e-6 * (1 + std::abs(normed))) << name;
        EXPECT_EQ(y[width + i], bias[i]) << name << ": a constant row is its bias";
      }
    });
  }
}

TEST(LayerNormTest, ARowHasTheSameBitsAloneAndInABatch) {
  for (const int width : {15, 64, 100, 4096}) {
    const std::vector<float> weight = RandomFloats(width, 2), bias = RandomFloats(width, 3);
    ForEachInstructionSet([&](const char*) {
      ExpectRowInvariance(
          RandomFloats(9 * width, 1), width, [&](const std::vector<float>& x, int rows) {
            ThreadPool pool(rows == 1 ? 1 : 3);
            std::vector<float> y(x.size());
            CpuBackend().layer_norm(
                {x.data(), weight.data(), bias.data(), y.data(), rows, width, 1e-5f}, pool);
            return y;
          });
    });
  }
}

TEST(GeluTest, AgreesWithErfFromTailToTail) {
  ThreadPool pool(2);
  std::vector<float> x;
  for (int i = -1400; i <= 1400; ++i) x.push_back(static_cast<float>(i) / 100);
  const int width = static_cast<int>(x.size());
  std::vector<float> y(x.size());
  ForEachInstructionSet([&](const char* name) {
    CpuBackend().gelu({x.data(), y.data(), 1, width}, pool);
    for (int i = 0; i < width; ++i) {
      const double value = x[i], expected = value * std::erfc(-value / std::sqrt(2.0)) / 2;
      // The tail of negative values is a small number, but a precise one.
      ASSERT_NEAR(y[i], expected, 1e-30 + 5e-6 * std::abs(expected)) << name << " " << x[i];
    }
    EXPECT_EQ(y[1400], 0) << name;
    EXPECT_EQ(y[2800], 14) << name;
  });
}

TEST(GeluTest, ARowHasTheSameBitsAloneAndInABatch) {
  for (const int width : {1, 15, 100, 2048}) {
    ForEachInstructionSet([&](const char*) {
      ExpectRowInvariance(RandomFloats(9 * width, 1, 3.0f), width,
                          [&](const std::vector<float>& x, int rows) {
                            ThreadPool pool(rows == 1 ? 1 : 3);
                            std::vector<float> y(x.size());
                            CpuBackend().gelu({x.data(), y.data(), rows, width}, pool);
                            return y;
                          });
    });
  }
}

// The sum as it is written in ops.h, in double precision.
TEST(ConvolveTest, AddsTheTapsOfTheRowsOfABlock) {
  ForEachConvolveCase([](const ConvolveCase& test) {
    const ConvolveInputs inputs(test, 3);
    ForEachInstructionSet([&](const char* name) {
      const std::vector<float> actual = RunConvolve(CpuBackend(), test);
      for (int row = 0; row < inputs.rows; ++row) {
        for (int c = 0; c < test.width; ++c) {
          const size_t at = size_t(row) * test.width + c;
          double sum = test.accumulate ? inputs.y[at] : 0;
          for (int t = 0; t < test.taps && t <= row % test.block_rows; ++t) {
            const size_t coefficient = size_t(row) * inputs.stride() + inputs.side() +
                                       t * (test.width / test.group) + c / test.group;
            sum += (double{inputs.base[size_t(t) * test.width + c]} +
                    inputs.coefficients[coefficient]) *
                   inputs.x[at - size_t(t) * test.width];
          }
          ASSERT_NEAR(actual[at], sum, 1e-5 * (1 + std::abs(sum))) << name << " row " << row;
        }
      }
    });
  });
}

TEST(ConvolveTest, ABlockHasTheSameBitsAloneAndInABatch) {
  ForEachConvolveCase([](const ConvolveCase& test) {
    ForEachInstructionSet([&](const char*) {
      const std::vector<float> batched = RunConvolve(CpuBackend(), test);
      for (int block = 0; block < 3; ++block) {
        ThreadPool pool(1);
        ConvolveInputs inputs(test, 3);
        CpuBackend().convolve(inputs.Args(block, 1), pool);
        const size_t count = size_t(test.block_rows) * test.width, at = block * count;
        ASSERT_TRUE(SameBits(inputs.y.data() + at, batched.data() + at, count));
      }
    });
  });
}

TEST(ConvolveTest, ATapOf1ChangesNothing) {
  const int rows = 8, width = 40, taps = 2, group = 8;
  const std::vector<float> x = RandomFloats(rows * width, 3);
  const std::vector<float> coefficients(size_t(rows) * taps * width / group);
  std::vector<float> base(taps * width), y(x.size());
  std::fill_n(base.begin(), width, 1.0f);
  ThreadPool pool(2);
  ForEachInstructionSet([&](const char*) {
    CpuBackend().convolve({x.data(), base.data(), coefficients.data(), y.data(), rows, width, taps,
                           group, 4, taps * width / group},
                          pool);
    EXPECT_EQ(y, x);
  });
}

TEST(ScaleTest, MultipliesAndCaps) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 64, 100}) {
    const std::vector<float> before = RandomFloats(5 * width, 1, 30.0f);
    for (const float cap : {0.0f, 20.0f}) {
      ForEachInstructionSet([&](const char* name) {
        std::vector<float> x = before;
        CpuBackend().scale({x.data(), 5, width, 0.75f, cap}, pool);
        for (size_t i = 0; i < x.size(); ++i) {
          const double scaled = 0.75 * before[i];
          const double expected = cap > 0 ? cap * std::tanh(scaled / cap) : scaled;
          ASSERT_NEAR(x[i], expected, 1e-5) << name << " " << before[i];
        }
      });
    }
  }
}

TEST(EmbedTest, GathersRowsOfBothTypes) {
  ThreadPool pool(1);
  const std::vector<float> table = RandomFloats(10 * 24, 3);
  const std::vector<uint16_t> table16 = ToBf16(table);
  const int32_t tokens[] = {9, 0, 9};
  std::vector<float> y(3 * 24);
  CpuBackend().embed({tokens, table.data(), DType::kF32, y.data(), 3, 24}, pool);
  EXPECT_TRUE(SameBits(y.data(), table.data() + 9 * 24, 24));
  EXPECT_TRUE(SameBits(y.data() + 24, table.data(), 24));
  CpuBackend().embed({tokens, table16.data(), DType::kBF16, y.data(), 3, 24}, pool);
  EXPECT_EQ(y[5], Bf16ToFloat(table16[9 * 24 + 5]));
}

// Rotates one head, whose halves are 1 and 2, by a right angle. The halves become −2 and 1, divided
// by the root of the mean square, √2.5.
TEST(QkvTest, RotatesByARightAngleAndWritesToTheSlot) {
  ThreadPool pool(1);
  for (const int dim : {16, 32, 64, 128}) {
    const int half = dim / 2;
    std::vector<float> row(3 * dim, 1.0f), table(4 * dim, 0.0f);
    for (const int head : {0, 1}) std::fill_n(row.begin() + head * dim + half, half, 2.0f);
    for (int i = 0; i < dim; ++i) row[2 * dim + i] = static_cast<float>(i);
    std::fill_n(table.begin() + 3 * dim + half, half, 1.0f);  // Sines at position 3.
    const std::vector<float> query_norm(dim, 5.0f), key_norm(dim, 10.0f);
    const int32_t position = 3;
    const int64_t slot = 16 + 7;
    const std::vector<float> before = row;
    ForEachInstructionSet([&](const char* name) {
      row = before;
      std::vector<float> keys(2 * 16 * dim), values(keys.size());
      QkvArgs args;
      args.query = row.data();
      args.key = row.data() + dim;
      args.value = row.data() + 2 * dim;
      args.query_norm = query_norm.data();
      args.key_norm = key_norm.data();
      args.cosine_sine = table.data();
      args.positions = &position;
      args.slots = &slot;
      args.cache = {DType::kF32, 1, dim, keys.data(), values.data()};
      args.rows = args.query_heads = 1;
      args.query_stride = args.kv_stride = 3 * dim;
      args.epsilon = 0;
      CpuBackend().qkv(args, pool);
      for (int i = 0; i < dim; ++i) {
        const float rotated = (i < half ? -2.0f : 1.0f) / std::sqrt(2.5f);
        EXPECT_NEAR(row[i], 5 * rotated, 1e-5) << name;
        EXPECT_NEAR(keys[(dim + i) * 16 + 7], 10 * rotated, 1e-5) << name;
        EXPECT_EQ(values[(16 + 7) * dim + i], static_cast<float>(i)) << name;
      }
    });
  }
}

// Without norms, elements that do not rotate pass through, and rotated pairs keep their length.
TEST(QkvTest, WithoutNormsTheRestOfAHeadPassesThrough) {
  const int dim = 32, stride = 8 * dim;
  const std::vector<float> before = RandomFloats(size_t(4) * stride, 4);
  for (const int rotated : {2, 16, 20, 30}) {
    ForEachInstructionSet([&](const char* name) {
      const std::vector<float> after = RunQkv(CpuBackend(), {true, false, rotated});
      for (int row = 0; row < 4; ++row) {
        for (int i = 0; i < 4 * dim; ++i) {  // Four query heads.
          const size_t at = size_t(row) * stride + i;
          EXPECT_EQ(after[at] == before[at], i % dim >= rotated) << name << " " << rotated;
        }
      }
    });
  }
}

TEST(QkvTest, WritesTheSameKeysAndValuesWithoutQueries) {
  const std::vector<float> with = RunQkv(CpuBackend(), {}), without = RunQkv(CpuBackend(), {false});
  const size_t rows = 4 * 8 * 32;  // Query, key and value of 4 rows come first.
  ASSERT_EQ(with.size(), without.size());
  EXPECT_FALSE(SameBits(with.data(), without.data(), rows));
  EXPECT_TRUE(SameBits(with.data() + rows, without.data() + rows, with.size() - rows));
}

TEST(KvMoveTest, OverlappingMovesReadAllRowsBeforeWriting) { ExpectCyclicMoves(CpuBackend()); }

}  // namespace
}  // namespace bastion::kernels
