#include "tools/doctor/checkpoint_report.h"

#include <nlohmann/json.hpp>

#include "common/base/machine_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::doctor {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

CheckpointReport SmallCheckpointReport() {
  CheckpointReport report;
  report.target.emplace();
  report.target->config.architecture = "Qwen3ForCausalLM";
  report.target->cost.weight_bytes = 1'000'000'000;
  report.target->cost.multiply_adds_per_row = 500'000'000;
  report.verdicts = {{"bastion-verifier", absl::OkStatus(), ""}};
  report.memory = {{.service = "bastion-verifier", .weights = kGiB, .kv_cache = 2 * kGiB}};
  report.limits.device = "a CPU";
  report.limits.bytes_per_second = 20e9;
  report.limits.target_flops = 100e9;
  report.limits.free_memory = 4 * kGiB;
  report.forwards = EstimateForwards(report);
  return report;
}

TEST(CheckpointReport, AForwardIsLimitedByMemoryOrByArithmetic) {
  const CheckpointReport report = SmallCheckpointReport();
  ASSERT_EQ(report.forwards.size(), 3u);
  EXPECT_EQ(report.forwards[0].name, "decode");
  EXPECT_THAT(report.forwards[0].seconds, DoubleNear(0.05, 1e-9));
  EXPECT_EQ(report.forwards[2].rows, 32);
  EXPECT_THAT(report.forwards[2].seconds, DoubleNear(0.32, 1e-9));
}

TEST(CheckpointReport, MemoryOfAllServicesMustFit) {
  CheckpointReport report = SmallCheckpointReport();
  EXPECT_TRUE(report.fits());
  EXPECT_THAT(CheckpointText(report, {}), AllOf(HasSubstr("Needed: 3.00 GiB. Free: 4.00 GiB.\n"),
                                                Not(HasSubstr("does not fit"))));
  report.memory.push_back({.service = "bastion-drafter", .weights = 2 * kGiB});
  EXPECT_FALSE(report.fits());
  EXPECT_THAT(CheckpointText(report, {}), HasSubstr("does not fit: lower --kv_tokens"));
  report.limits.free_memory = 0;
  EXPECT_TRUE(report.fits());
}

TEST(CheckpointReport, AnErrorComesWithItsRemedy) {
  CheckpointReport report = SmallCheckpointReport();
  report.verdicts = {{"bastion-verifier", absl::NotFoundError("no tensor 'x\x1b[2J'"), "Copy it."}};
  const std::string text = CheckpointText(report, {});
  EXPECT_THAT(text, AllOf(HasSubstr("do not run"), HasSubstr("no tensor 'x\\x1b[2J'"),
                          HasSubstr("Copy it."), Not(HasSubstr("\x1b"))));
  const auto json = nlohmann::json::parse(CheckpointJson(report, {}));
  EXPECT_EQ(json["runs"], false);
  EXPECT_EQ(json["verdicts"][0]["error"], "no tensor 'x\x1b[2J'");
  EXPECT_EQ(json["fits"], true);
}

TEST(MachineMemory, IsReadFromItsLine) {
  const std::string meminfo = "MemTotal:  100 kB\nMemAvailable:   24 kB\nAvailable: 7 kB\n";
  EXPECT_EQ(MeminfoBytes(meminfo, "MemAvailable"), 24 * 1024);
  EXPECT_EQ(MeminfoBytes(meminfo, "Available"), 7 * 1024);
  EXPECT_EQ(MeminfoBytes(meminfo, "Mem"), 0);
  EXPECT_GT(AvailableMemory(), 0);
}

}  // namespace
}  // namespace bastion::doctor
