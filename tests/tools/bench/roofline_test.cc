#include "tools/bench/roofline.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(RooflineTest, TheDemoPairIsWithinTheLimitsOfTheMachine) {
  LocalOptions options;
  options.target_folder = BASTION_SOURCE_DIR "/deploy/demo_model/target";
  options.drafter_folder = BASTION_SOURCE_DIR "/deploy/demo_model/drafter";
  options.device.threads = 2;
  const auto stages = LocalStages::Create(options);
  ASSERT_TRUE(stages.ok()) << stages.status();
  const auto report = MeasureRoofline(**stages);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->forwards.size(), 9u);
  EXPECT_EQ(report->forwards.front().name, "decode");
  EXPECT_EQ(report->forwards.back().name, "draft");
  for (const ForwardTime& forward : report->forwards) {
    EXPECT_GT(forward.seconds, 0);
    // CPU caches may hold a part of this small model, so the time may be below the bound.
    EXPECT_LT(forward.bound_seconds / forward.seconds, 5) << forward.name << " " << forward.rows;
  }
  // Bytes of 15.3 M weights in bf16 and of the zero padding of the LM head.
  EXPECT_NEAR(report->forwards.front().bytes, 31.8e6, 0.1e6);
  const nlohmann::json json = report->Json();
  ASSERT_EQ(json["forwards"].size(), 9u);
  EXPECT_EQ(json["forwards"][7]["forward"], "verify");
  EXPECT_EQ(json["forwards"][7]["context"], 256);
  EXPECT_EQ(json["forwards"][7]["rows"], 128);
}

TEST(RooflineTest, JsonLeavesOutRatesThatWereNotMeasured) {
  RooflineReport report;
  report.device = "gpu";
  report.limits.read_bytes_per_second = 4e12;
  report.limits.flops_per_second[WeightFormat::kBF16] = 6e14;
  const nlohmann::json json = report.Json();
  EXPECT_EQ(json["read_bytes_per_second"], 4e12);
  EXPECT_EQ(json["bf16_flops_per_second"], 6e14);
  EXPECT_FALSE(json.contains("int8_flops_per_second"));
  EXPECT_FALSE(json.contains("fp32_flops_per_second"));
}

}  // namespace
}  // namespace bastion
