#include "tools/bench/latency_model.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace bastion {
namespace {

// One row takes 4 ms and every further row 0.1 ms, which the roofline below has no idea of: it
// thinks that 1 byte takes 1 ns.
LatencyModel ExampleModel() {
  ProfiledTarget profiled;
  profiled.target.model = "toy";
  profiled.target.dims = {.layers = 1,
                          .hidden = 1000,
                          .query_heads = 1,
                          .kv_heads = 1,
                          .head_dim = 10,
                          .intermediate = 10,
                          .vocabulary = 100,
                          .bytes_per_weight = 1};
  profiled.target.peaks = {.bytes_per_second = 1e9, .flops_per_second = 1e15};
  for (const int rows : {1, 10, 100}) {
    const double seconds = 4e-3 + 1e-4 * (rows - 1);
    profiled.profile.points.push_back({rows, 0, seconds, seconds});
  }
  profiled.profile.points.push_back({100, 64, 1, 1, /*interpolated=*/true});
  return *DescribeLatencyModel(profiled);
}

TEST(LatencyModelTest, JsonHasTheProfileAndTheFit) {
  const LatencyModel model = ExampleModel();
  const nlohmann::json json = LatencyModelJson(model);
  EXPECT_EQ(json["calibration"]["target"], "toy");
  ASSERT_EQ(json["calibration"]["calibration"].size(), 4u);
  ASSERT_EQ(json["roofline_seconds"].size(), 4u);
  // 1 row: weights 200·1000 + 2·1000·20 + 3·1000·10 = 270000 bytes, states 1100 + 2·10·2 + 4·1020 +
  // 2
  EXPECT_NEAR(json["roofline_seconds"][0].get<double>(), (270000 + 1100 + 40 + 4080 + 2) * 1e-9,
              1e-12);
  EXPECT_EQ(json["static"]["slope"], model.fit.line.slope);
  EXPECT_EQ(json["static"]["intercept_seconds"], model.fit.line.intercept);
  EXPECT_EQ(json["rmse_seconds"]["static"], model.fit.static_rmse);
  EXPECT_LT(json["rmse_seconds"]["static"], json["rmse_seconds"]["roofline"]);
  EXPECT_GT(json["rmse_cut"].get<double>(), 0.9);
}

TEST(LatencyModelTest, ATargetWithoutPeaksHasNoLatencyModel) {
  EXPECT_FALSE(DescribeLatencyModel({}).ok());
}

}  // namespace
}  // namespace bastion
