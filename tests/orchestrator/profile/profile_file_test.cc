#include "orchestrator/profile/profile_file.h"

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

ProfiledTarget Example() {
  ProfiledTarget profiled;
  profiled.target.model = "qwen";
  profiled.target.device = "a box, 2 threads, bf16";
  profiled.target.dims = TinyDims();
  profiled.target.peaks = {1e9, 2e9};
  profiled.target.max_rows = 512;
  profiled.profile = {{{1, 16, 0.1, 0.11}, {8, 16, 0.3, 0.32}, {8, 99, 0.4, 0.42, true, 5.5}},
                      /*sequence_seconds=*/0.001};
  profiled.profile.expert_seconds = 0.002;
  return profiled;
}

TEST(ProfileFileTest, WhatWasWrittenIsRead) {
  const TempFolder folder;
  const std::string path = folder.File("profile.json");
  const ProfiledTarget written = Example();
  ASSERT_TRUE(WriteProfile(path, written).ok());
  const auto table = ReadProfile(path, written.target);
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
  const auto all = ReadProfileFile(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->target.dims, TinyDims());
  EXPECT_EQ(all->target.peaks.flops_per_second, 2e9);
  TargetInfo later = written.target;
  later.peaks.flops_per_second = 2.2e9;  // Measured again at the next start.
  EXPECT_EQ(ReadProfile(path, later)->PeaksFor(later).flops_per_second, 2e9);
  EXPECT_EQ(LatencyProfile().PeaksFor(later).flops_per_second, 2.2e9);
  EXPECT_EQ(all->target.max_rows, 512);
}

TEST(ProfileFileTest, AFractionOfAByteAndTheIntegersOfOlderFilesAreRead) {
  const TempFolder folder;
  ProfiledTarget written = Example();
  written.target.dims.bytes_per_weight = 0.5;
  ASSERT_TRUE(WriteProfile(folder.File("profile.json"), written).ok());
  EXPECT_TRUE(ReadProfile(folder.File("profile.json"), written.target).ok());
  nlohmann::json older = ProfileJson(Example());
  older["calibration_file"] = 1;
  older["dims"]["bytes_per_element"] = 2;
  folder.Write("older.json", older.dump());
  EXPECT_TRUE(ReadProfile(folder.File("older.json"), Example().target).ok());
}

TEST(ProfileFileTest, AnotherDeviceTargetOrTypeIsRefused) {
  const TempFolder folder;
  const std::string path = folder.File("profile.json");
  ASSERT_TRUE(WriteProfile(path, Example()).ok());
  TargetInfo device = Example().target, model = device, dims = device, type = device;
  TargetInfo mlp = device;
  mlp.dims.mlp.matrices = 2;
  device.device = "a box, 4 threads, bf16";
  model.model = "llama";
  dims.dims.layers = 3;
  type.dims.state_bytes_per_element = 1;
  for (const TargetInfo& target : {device, model, dims, type, mlp}) {
    const absl::Status status = ReadProfile(path, target).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr("qwen on a box, 2 threads, bf16"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(target.model + " on " + target.device));
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove this one"));
  }
}

TEST(ProfileFileTest, DamagedFilesAreNamed) {
  const TempFolder folder;
  const std::string path = folder.File("profile.json");
  const auto refused = [&](const std::string& content) {
    folder.Write("profile.json", content);
    const absl::Status status = ReadProfileFile(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << content << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  };
  refused("");
  refused("{}");
  refused("[1]");
  refused(R"({"calibration_file": 2})");
  refused(R"({"calibration_file": 1, "device": "x"})");
  nlohmann::json object = ProfileJson(Example());
  object["calibration_file"] = 1;
  ASSERT_TRUE(ReadProfileFile((folder.Write("profile.json", object.dump()), path)).ok());
  object["calibration"] = nlohmann::json::array();
  refused(object.dump());
  object["calibration"] = {{1, 16, 0.0, 0.1, false}};
  refused(object.dump());
  object["calibration"] = {{1, 16, "fast", 0.1, false}};
  refused(object.dump());
}

TEST(ProfileFileTest, AMissingFileAndAFolderThatCannotBeWrittenAreErrors) {
  const TempFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadProfileFile(folder.File("none")).status()));
  const absl::Status written = WriteProfile("/proc/nowhere/profile.json", Example());
  EXPECT_TRUE(absl::IsUnavailable(written)) << written;
  EXPECT_THAT(std::string(written.message()), HasSubstr("/proc/nowhere/profile.json"));
}

}  // namespace
}  // namespace bastion
