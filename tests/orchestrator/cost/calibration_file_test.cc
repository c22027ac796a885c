#include "orchestrator/cost/calibration_file.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::bastion::testing::TempFolder;
using ::bastion::testing::TinyDims;
using ::testing::HasSubstr;

CalibratedTarget Example() {
  CalibratedTarget calibrated;
  calibrated.target.model = "qwen";
  calibrated.target.device = "a box, 2 threads, bf16";
  calibrated.target.dims = TinyDims();
  calibrated.target.peaks = {1e9, 2e9};
  calibrated.target.max_rows = 512;
  calibrated.calibration = {{{1, 16, 0.1, 0.11}, {8, 16, 0.3, 0.32}, {8, 99, 0.4, 0.42, true, 5.5}},
                            /*sequence_seconds=*/0.001};
  calibrated.calibration.expert_seconds = 0.002;
  return calibrated;
}

TEST(CalibrationFileTest, WhatWasWrittenIsRead) {
  const TempFolder folder;
  const std::string path = folder.File("calibration.json");
  const CalibratedTarget written = Example();
  ASSERT_TRUE(WriteCalibration(path, written).ok());
  const auto table = ReadCalibration(path, written.target);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->points.size(), 3u);
  EXPECT_EQ(table->points[1].rows, 8);
  EXPECT_EQ(table->points[1].context, 16);
  EXPECT_EQ(table->points[1].seconds, 0.3);
  EXPECT_EQ(table->points[1].round_trip_seconds, 0.32);
  EXPECT_FALSE(table->points[1].interpolated);
  EXPECT_TRUE(table->points[2].interpolated);
  EXPECT_EQ(table->points[2].experts, 5.5);
  EXPECT_EQ(table->sequence_seconds, 0.001);
  EXPECT_EQ(table->expert_seconds, 0.002);
  const auto all = ReadCalibrationFile(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->target.dims, TinyDims());
  EXPECT_EQ(all->target.peaks.flops_per_second, 2e9);
  TargetInfo later = written.target;
  later.peaks.flops_per_second = 2.2e9;  // Measured again at the next start.
  EXPECT_EQ(ReadCalibration(path, later)->PeaksFor(later).flops_per_second, 2e9);
  EXPECT_EQ(CalibrationTable().PeaksFor(later).flops_per_second, 2.2e9);
  EXPECT_EQ(all->target.max_rows, 512);
}

TEST(CalibrationFileTest, AnotherDeviceTargetOrTypeIsRefused) {
  const TempFolder folder;
  const std::string path = folder.File("calibration.json");
  ASSERT_TRUE(WriteCalibration(path, Example()).ok());
  TargetInfo device = Example().target, model = device, dims = device, type = device;
  TargetInfo mlp = device;
  mlp.dims.mlp.matrices = 2;
  device.device = "a box, 4 threads, bf16";
  model.model = "llama";
  dims.dims.layers = 3;
  type.dims.state_bytes_per_element = 1;
  for (const TargetInfo& target : {device, model, dims, type, mlp}) {
    const absl::Status status = ReadCalibration(path, target).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr("qwen on a box, 2 threads, bf16"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(target.model + " on " + target.device));
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove this one"));
  }
}

TEST(CalibrationFileTest, DamagedFilesAreNamed) {
  const TempFolder folder;
  const std::string path = folder.File("calibration.json");
  const auto refused = [&](const std::string& content) {
    folder.Write("calibration.json", content);
    const absl::Status status = ReadCalibrationFile(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << content << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  };
  refused("");
  refused("{}");
  refused("[1]");
  refused(R"({"calibration_file": 2})");
  refused(R"({"calibration_file": 1, "device": "x"})");
  nlohmann::json object = CalibrationJson(Example());
  object["calibration_file"] = 1;
  ASSERT_TRUE(ReadCalibrationFile((folder.Write("calibration.json", object.dump()), path)).ok());
  object["calibration"] = nlohmann::json::array();
  refused(object.dump());
  object["calibration"] = {{1, 16, 0.0, 0.1, false}};
  refused(object.dump());
  object["calibration"] = {{1, 16, "fast", 0.1, false}};
  refused(object.dump());
}

TEST(CalibrationFileTest, AMissingFileAndAFolderThatCannotBeWrittenAreErrors) {
  const TempFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadCalibrationFile(folder.File("none")).status()));
  const absl::Status written = WriteCalibration("/proc/nowhere/calibration.json", Example());
  EXPECT_TRUE(absl::IsUnavailable(written)) << written;
  EXPECT_THAT(std::string(written.message()), HasSubstr("/proc/nowhere/calibration.json"));
}

}  // namespace
}  // namespace bastion
