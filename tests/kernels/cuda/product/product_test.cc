#include "kernels/cuda/product/product.h"

#include <string>
#include <vector>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/warpgroup.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

// The operands of a product and its result. y ends with guards that must not be written.
class TestProduct {
 public:
  static constexpr size_t kGuards = 64;
  static constexpr float kGuard = 12345.0f;

  TestProduct(int rows, int columns, int depth, bool gated = false)
      : x_(ToBf16(RandomFloats(size_t(rows) * depth, 1))),
        weight_(ToBf16(RandomFloats(size_t(columns) * depth, 2))),
        x_on_device_(x_),
        weight_on_device_(weight_),
        sums_(MaxProductSums()),
        y_(size_t(rows) * columns + kGuards, kGuard),
        activation_(size_t(rows) * columns / 2) {
    args.x = x_on_device_.data();
    args.weight = weight_on_device_.data();
    args.rows = rows;
    args.columns = columns;
    args.depth = depth;
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
                               Bf16ToFloat(weight_[column * args.depth + k]);
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

  const std::vector<uint16_t> x_, weight_;
  OnDevice<uint16_t> x_on_device_, weight_on_device_;
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

class ProductTest : public DeviceTest {
 protected:
  // The device, and the same without the instructions of sm_90a.
  [[nodiscard]] std::vector<DeviceInfo> Devices() const {
    std::vector<DeviceInfo> devices = {device_, device_};
    devices[1].capability = 80;
    return devices;
  }
};

TEST_F(ProductTest, AgreesWithDoublePrecision) {
  const int shapes[][3] = {{1, 64, 64},    {3, 24, 512},    {7, 129, 40},  {16, 256, 128},
                           {33, 72, 1032}, {130, 100, 256}, {1, 1000, 320}};
  for (const auto& [rows, columns, depth] : shapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
    for (const DeviceInfo& device : Devices()) {
      TestProduct product(rows, columns, depth);
      const ProductPlan plan = PlanProduct(product.args, device);
      product.Check(product.Run(rows, plan, *stream_));
      product.Fill(2.5f);
      product.args.accumulate = true;
      product.Check(product.Run(rows, plan, *stream_), 2.5f);
    }
  }
}

// Plain decoding multiplies one row, a tree many. 130 rows are more than a block takes.
TEST_F(ProductTest, ARowHasTheSameBitsAtEveryNumberOfRows) {
  for (const auto& [columns, depth] : {std::pair{136, 256}, {200, 72}}) {
    TestProduct product(130, columns, depth);
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

TEST_F(ProductTest, EveryPlanGivesTheSameBits) {
  for (const int ranges : {1, 2, 4}) {
    TestProduct product(9, 200, 256);
    std::vector<float> first;
    std::vector<ProductPlan> plans = AllPlans(ranges, 9, false);
    if (HasWarpgroups(device_.capability)) {
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

TEST_F(ProductTest, TheFirstOutputsHaveTheBitsOfTheWholeProduct) {
  constexpr int kRows = 5, kColumns = 300, kOutputs = 70;
  TestProduct product(kRows, kColumns, 256);
  const std::vector<float> all = product.Run(kRows, PlanProduct(product.args, device_), *stream_);
  product.args.outputs = kOutputs;
  const std::vector<float> some = product.Run(kRows, PlanProduct(product.args, device_), *stream_);
  for (int row = 0; row < kRows; ++row) {
    EXPECT_TRUE(SameBits(&some[row * kOutputs], &all[row * kColumns], kOutputs)) << row;
  }
}

TEST_F(ProductTest, AGatedProductEqualsTheProductAndThenTheActivation) {
  for (const auto& [rows, width] : {std::pair{3, 88}, {20, 200}, {131, 12}}) {
    TestProduct plain(rows, 2 * width, 192), gated(rows, 2 * width, 192, /*gated=*/true);
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

}  // namespace
}  // namespace bastion::kernels::cuda
