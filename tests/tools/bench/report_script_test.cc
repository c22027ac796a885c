#include "tools/bench/report_script.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

std::string Content(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

// A folder of sources whose script runs `line`, and has no virtual environment.
class ReportScriptTest : public ::testing::Test {
 protected:
  void WriteScript(const std::string& line) {
    std::filesystem::create_directories(folder_.File("deploy/measure"));
    std::ofstream(folder_.File("deploy/measure/bench_report.py")) << line << "\n";
  }

  const testing::TempFolder folder_;
};

TEST_F(ReportScriptTest, TheScriptGetsItsArguments) {
  WriteScript("import sys; open(sys.argv[2] + '/made', 'w').write(sys.argv[1])");
  const absl::Status made = RunReportScript(folder_.path(), {"--tables", folder_.path()});
  EXPECT_TRUE(made.ok()) << made;
  EXPECT_EQ(Content(folder_.File("made")), "--tables");
}

TEST_F(ReportScriptTest, AFailureNamesTheCommand) {
  WriteScript("raise SystemExit(1)");
  const absl::Status made = MakeReport("replay", {{"cycles", 3}}, folder_.path(), folder_.path());
  EXPECT_TRUE(absl::IsUnavailable(made));
  EXPECT_THAT(std::string(made.message()),
              HasSubstr("run python3 " + folder_.File("deploy/measure/bench_report.py") + " " +
                        folder_.path()));
  EXPECT_EQ(nlohmann::json::parse(Content(folder_.File("measurements.json"))),
            nlohmann::json({{"cycles", 3}, {"format", 1}, {"kind", "replay"}}))
      << "the measurements remain";
}

TEST_F(ReportScriptTest, WithoutAFolderTheMeasurementsDoNotRemain) {
  WriteScript(
      "import sys, pathlib; pathlib.Path(__file__).with_name('seen').write_text("
      "sys.argv[2]); assert pathlib.Path(sys.argv[2], 'measurements.json').exists()");
  const absl::Status made = MakeReport("replay", {{"cycles", 3}}, "", folder_.path());
  EXPECT_TRUE(made.ok()) << made;
  const std::string temporary = Content(folder_.File("deploy/measure/seen"));
  EXPECT_NE(temporary, "");
  EXPECT_FALSE(std::filesystem::exists(temporary)) << temporary;
}

TEST_F(ReportScriptTest, AFolderThatCannotBeWrittenIsReported) {
  EXPECT_TRUE(CreateReportFolder(folder_.File("a/report")).ok());
  EXPECT_TRUE(CreateReportFolder(folder_.File("a/report")).ok()) << "it exists already";
  for (const absl::Status& status :
       {CreateReportFolder("/proc/nowhere"), WriteMeasurements("replay", {}, "/proc/nowhere")}) {
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere"));
  }
}

}  // namespace
}  // namespace bastion
