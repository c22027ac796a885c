#include "kernels/cuda/product/product.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/warpgroup.h"
#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/cuda/product/test_weights.h"

namespace bastion::kernels::cuda {
namespace {

struct Shape {
  int rows, columns, depth;
};

// The operands of a product and its result. y ends with guards that must not be written.
class TestProduct {
 public:
  static constexpr size_t kGuards = 64;
  static constexpr float kGuard = 12345.0f;

  TestProduct(const Shape& shape, WeightFormat format, bool gated = false)
      : TestProduct(shape, RandomFloats(size_t(shape.rows) * shape.depth, 1), Random(shape, format),
                    gated) {}
  // x [rows, depth], rounded to bf16.
  TestProduct(const Shape& shape, const std::vector<float>& x, TestWeights weights,
              bool gated = false)
      : x_(ToBf16(x)),
        weights_(std::move(weights)),
        x_on_device_(x_),
        weights_on_device_(weights_.memory),
        sums_(MaxProductSums()),
        y_(size_t(shape.rows) * shape.columns + kGuards, kGuard),
        activation_(size_t(shape.rows) * shape.columns / 2) {
    args.x = x_on_device_.data();
    args.weight = weights_on_device_.data();
    if (weights_.format == WeightFormat::kInt8) {
      args.scales = Int8Scales(args.weight, shape.columns, shape.depth);
    }
    args.rows = shape.rows;
    args.columns = shape.columns;
    args.depth = shape.depth;
    args.y = y_.data();
    if (gated) args.activation = activation_.data();
  }

  // The first `rows` rows of y.
  std::vector<float> Run(int rows, const ProductPlan& plan, Stream& stream) {
    ProductArgs run = args;
    run.rows = rows;
    if (plan.split) {
      run.y = sums_.data();
      run.accumulate = false;
    }
    const Sums sums = Product(run, plan, stream);
    if (plan.split) AddSums({sums, args.y, sums.stride, args.accumulate}, stream);
    EXPECT_TRUE(stream.Synchronize().ok());
    const int outputs = args.outputs > 0 ? args.outputs : args.columns;
    std::vector<float> y = y_.Read();
    for (size_t i = y.size() - kGuards; i < y.size(); ++i) EXPECT_EQ(y[i], kGuard);
    y.resize(size_t(rows) * outputs);
    return y;
  }
  [[nodiscard]] std::vector<uint16_t> activation() const { return activation_.Read(); }
  void Fill(float value) { y_.Write(Filled(value)); }

  // Compares y with the product in double precision.
  void Check(const std::vector<float>& y, float before = 0) const {
    const size_t outputs = args.outputs > 0 ? args.outputs : args.columns;
    for (size_t at = 0; at < y.size(); ++at) {
      const size_t row = at / outputs, column = at % outputs;
      double sum = before, magnitude = std::abs(before);
      for (int k = 0; k < args.depth; ++k) {
        const double product = double{Bf16ToFloat(x_[row * args.depth + k])} *
                               weights_.values[column * args.depth + k];
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(y[at], sum, 1e-6 * magnitude) << "row " << row << ", column " << column;
    }
  }

  ProductArgs args;

 private:
  [[nodiscard]] std::vector<float> Filled(float value) const {
    std::vector<float> values(size_t(args.rows) * args.columns + kGuards, value);
    std::fill(values.end() - kGuards, values.end(), kGuard);
    return values;
  }

  static TestWeights Random(const Shape& shape, WeightFormat format) {
    return WeightsIn(format, RandomFloats(size_t(shape.columns) * shape.depth, 2), shape.columns,
                     shape.depth);
  }

  const std::vector<uint16_t> x_;
  const TestWeights weights_;
  OnDevice<uint16_t> x_on_device_;
  OnDevice<char> weights_on_device_;
  OnDevice<float> sums_, y_;
  OnDevice<uint16_t> activation_;
};

// The plan with the shared memory that its ring needs.
ProductPlan WithRing(ProductPlan plan) {
  const size_t stage = size_t(plan.tile_columns + plan.tile_tokens) * 128;
  plan.shared = plan.stages * (stage + (plan.warpgroups ? 2 * kBarrierBytes : 0)) +
                (plan.warpgroups ? kTileAlignment : 0);
  return plan;
}

// Every plan with these ranges. Some leave most of a tile empty.
std::vector<ProductPlan> AllPlans(int ranges, int rows, bool warpgroups) {
  std::vector<ProductPlan> plans;
  for (const int tokens : {8, 16, 32, 64, 128}) {
    if (tokens < std::min(rows, kMaxTokens)) continue;
    for (const int columns : {64, 128, 192}) {
      for (const int stages : {2, 3, 4}) {
        for (const int groups : {1, 2}) {
          plans.push_back(
              WithRing({ranges, ranges > 1, columns, tokens, stages, groups, 0, warpgroups}));
        }
      }
    }
  }
  if (ranges > 1) plans.push_back(WithRing({ranges, false, 128, 128, 3, 2, 0, warpgroups}));
  return plans;
}

std::string Describe(const ProductPlan& plan) {
  return testing::PrintToString(std::vector<int>{plan.ranges, plan.split, plan.tile_columns,
                                                 plan.tile_tokens, plan.stages, plan.groups,
                                                 plan.warpgroups});
}

// One format of weights.
class ProductTest : public DeviceTest, public ::testing::WithParamInterface<WeightFormat> {
 protected:
  // The device, and the same without the instructions of sm_90a.
  [[nodiscard]] std::vector<DeviceInfo> Devices() const {
    std::vector<DeviceInfo> devices = {device_, device_};
    devices[1].capability = 80;
    return devices;
  }
};

TEST_P(ProductTest, AgreesWithDoublePrecision) {
  const Shape shapes[] = {{1, 64, 64},    {3, 24, 512},    {7, 129, 40},  {16, 256, 128},
                          {33, 72, 1032}, {130, 100, 256}, {1, 1000, 320}};
  for (const Shape& shape : shapes) {
    const int rows = shape.rows;
    SCOPED_TRACE(testing::Message() << rows << " x " << shape.columns << " x " << shape.depth);
    for (const DeviceInfo& device : Devices()) {
      TestProduct product(shape, GetParam());
      const ProductPlan plan = PlanProduct(product.args, device);
      product.Check(product.Run(rows, plan, *stream_));
      product.Fill(2.5f);
      product.args.accumulate = true;
      product.Check(product.Run(rows, plan, *stream_), 2.5f);
    }
  }
}

// Plain decoding multiplies one row, a tree many. 130 rows are more than a block takes.
TEST_P(ProductTest, ARowHasTheSameBitsAtEveryNumberOfRows) {
  for (const auto& [columns, depth] : {std::pair{136, 256}, {200, 72}}) {
    TestProduct product({130, columns, depth}, GetParam());
    const std::vector<float> all = product.Run(130, PlanProduct(product.args, device_), *stream_);
    for (const int rows : {1, 2, 7, 8, 9, 16, 17, 32, 33, 64, 65, 127, 128, 129}) {
      ProductArgs args = product.args;
      args.rows = rows;
      for (const DeviceInfo& device : Devices()) {
        const std::vector<float> some = product.Run(rows, PlanProduct(args, device), *stream_);
        EXPECT_TRUE(SameBits(some.data(), all.data(), some.size())) << rows << " rows";
      }
    }
  }
}

TEST_P(ProductTest, EveryPlanGivesTheSameBits) {
  for (const int ranges : {1, 2, 4}) {
    TestProduct product({9, 200, 256}, GetParam());
    std::vector<float> first;
    std::vector<ProductPlan> plans = AllPlans(ranges, 9, false);
    if (HasWarpgroups(device_.capability) && GetParam() == WeightFormat::kBF16) {
      for (const ProductPlan& plan : AllPlans(ranges, 9, true)) plans.push_back(plan);
    }
    for (const ProductPlan& plan : plans) {
      const std::vector<float> y = product.Run(9, plan, *stream_);
      if (first.empty()) {
        first = y;
        product.Check(y);
      }
      ASSERT_TRUE(SameBits(y.data(), first.data(), y.size())) << Describe(plan);
    }
  }
}

TEST_P(ProductTest, TheFirstOutputsHaveTheBitsOfTheWholeProduct) {
  constexpr int kRows = 5, kColumns = 300, kOutputs = 70;
  TestProduct product({kRows, kColumns, 256}, GetParam());
  const std::vector<float> all = product.Run(kRows, PlanProduct(product.args, device_), *stream_);
  product.args.outputs = kOutputs;
  const std::vector<float> some = product.Run(kRows, PlanProduct(product.args, device_), *stream_);
  for (int row = 0; row < kRows; ++row) {
    EXPECT_TRUE(SameBits(&some[row * kOutputs], &all[row * kColumns], kOutputs)) << row;
  }
}

TEST_P(ProductTest, AGatedProductEqualsTheProductAndThenTheActivation) {
  for (const auto& [rows, width] : {std::pair{3, 88}, {20, 200}, {131, 12}}) {
    const Shape shape = {rows, 2 * width, 192};
    TestProduct plain(shape, GetParam()), gated(shape, GetParam(), /*gated=*/true);
    for (const DeviceInfo& device : Devices()) {
      const ProductPlan plan = PlanProduct(gated.args, device);
      EXPECT_EQ(plan.ranges, 1);
      plain.Run(rows, plan, *stream_);
      const OnDevice<uint16_t> expected(size_t(rows) * width);
      SiluMul({plain.args.y, expected.data(), DType::kBF16, rows, width}, *stream_);
      Finish();
      gated.Run(rows, plan, *stream_);
      EXPECT_EQ(gated.activation(), expected.Read()) << rows << " rows of " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ProductTest,
                         ::testing::Values(WeightFormat::kBF16, WeightFormat::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

class Int8ProductTest : public DeviceTest {};

// Row i of x is 1 at column i, so y has the weights.
TEST_F(Int8ProductTest, EveryIntegerKeepsItsValue) {
  constexpr int kCount = 255;
  constexpr Shape kShape = {256, 8, 256};
  std::vector<float> weights(size_t(kShape.columns) * kShape.depth), x(size_t{256} * 256);
  for (int column = 0; column < kShape.columns; ++column) {
    for (int k = 0; k < kCount; ++k) {
      weights[column * kShape.depth + k] = static_cast<float>((k + column) % kCount - 127);
    }
  }
  for (int i = 0; i < kShape.rows; ++i) x[i * kShape.depth + i] = 1;
  TestProduct product(kShape, x, Int8Weights(weights, kShape.columns, kShape.depth));
  const std::vector<float> y =
      product.Run(kShape.rows, PlanProduct(product.args, device_), *stream_);
  for (int row = 0; row < kShape.rows; ++row) {
    for (int column = 0; column < kShape.columns; ++column) {
      ASSERT_EQ(y[row * kShape.columns + column], weights[column * kShape.depth + row]);
    }
  }
}

// Integers are exact in bf16, so a product that reads them as bf16 adds the same numbers.
TEST_F(Int8ProductTest, IntegersHaveTheBitsOfBf16) {
  constexpr Shape kShape = {21, 136, 512};
  std::vector<float> weights = RandomFloats(size_t(kShape.columns) * kShape.depth, 5);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] =
        i % kShape.depth == 7 ? 127 : std::clamp(std::round(40 * weights[i]), -127.f, 127.f);
  }
  const std::vector<float> x = RandomFloats(size_t(kShape.rows) * kShape.depth, 6);
  TestProduct int8(kShape, x, Int8Weights(weights, kShape.columns, kShape.depth));
  TestProduct bf16(kShape, x, Bf16Weights(weights));
  const auto run = [&](TestProduct& product) {
    return product.Run(kShape.rows, PlanProduct(product.args, device_), *stream_);
  };
  const std::vector<float> y = run(int8), expected = run(bf16);
  EXPECT_TRUE(SameBits(y.data(), expected.data(), y.size()));
}

}  // namespace
}  // namespace bastion::kernels::cuda
