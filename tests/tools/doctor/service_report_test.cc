#include "tools/doctor/service_report.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ServiceReport SmallReport() {
  ServiceReport report;
  report.model = "demo";
  report.device = "a CPU";
  report.policy = "default";
  report.bytes_per_second = 25e9;
  report.flops_per_second = 100e9;
  report.forward_bytes = 31'000'000;
  report.forwards = {{1, 128, 0.002, 0.0015}, {2, 128, 0.003, 0.0015}, {1, 512, 0.004, 0.002}};
  report.prompts.requests = 3;
  report.prompts.prompt_tokens = 100;
  report.prompts.output_tokens = 64;
  Level level;
  level.plain_seconds = 0.002;
  level.draft_free.committed = 2.5;
  level.draft_free.break_even = 1.25;
  level.draft_free.nodes = 5;
  level.modeled_speedup = level.draft_free.speedup = 2;
  level.decode_speedup = 1.9;
  level.speedup = 1.6;
  report.levels = {level};
  return report;
}

TEST(ServiceReportText, ShowsForwardsByRowsAndContext) {
  EXPECT_THAT(ServiceText(SmallReport(), {}),
              AllOf(HasSubstr("rows  after 128 tokens  after 512 tokens\n"),
                    HasSubstr("1          2.00 (75 %)       4.00 (50 %)\n"),
                    HasSubstr("2          3.00 (50 %)\n")));
}

TEST(ServiceReportText, ShowsWhatACycleCommitsAndNeeds) {
  EXPECT_THAT(ServiceText(SmallReport(), {"Do it."}),
              AllOf(HasSubstr("for 3 prompts of 100 tokens and answers of 64 tokens"),
                    HasSubstr("-  2.50 / 1.25     1.90x    1.60x\n"), HasSubstr("drafter  none"),
                    HasSubstr("Advice\n  - Do it.\n")));
}

TEST(ServiceReportText, SaysHowFeaturesReachTheDrafter) {
  ServiceReport report = SmallReport();
  report.drafter = "demo-drafter";
  EXPECT_THAT(ServiceText(report, {}), HasSubstr("drafter  demo-drafter\n"));
  report.drafter_features = "in GPU memory";
  EXPECT_THAT(ServiceText(report, {}),
              HasSubstr("drafter  demo-drafter, features in GPU memory\n"));
  const auto json = nlohmann::json::parse(ServiceJson(report, {}));
  EXPECT_EQ(json["drafter_features"], "in GPU memory");
}

TEST(ServiceReportText, EscapesControlCharactersOfTheServer) {
  ServiceReport report = SmallReport();
  report.model = "evil\x1b[2J";
  report.policy = "fixed\x07";
  EXPECT_THAT(ServiceText(report, {report.policy}),
              AllOf(HasSubstr("evil\\x1b[2J"), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
}

TEST(ServiceReportJson, HasTheNumbersOfTheText) {
  const auto json = nlohmann::json::parse(ServiceJson(SmallReport(), {"Do it."}));
  const auto& level = json["levels"][0];
  EXPECT_EQ(level["best"], "draft_free");
  EXPECT_EQ(level["speedup"], 1.6);
  EXPECT_TRUE(level["drafted"].is_null());
  EXPECT_EQ(level["draft_free"]["break_even_committed"], 1.25);
  EXPECT_EQ(level["draft_free"]["break_even_acceptance"], 0.05);
  EXPECT_EQ(json["forwards"][0]["share_of_limits"], 0.75);
  EXPECT_TRUE(json["unreached_requests"].is_null());
  EXPECT_EQ(json["advice"][0], "Do it.");
}

TEST(ServiceReportJson, InvalidUtf8OfTheServerIsReplaced) {
  ServiceReport report = SmallReport();
  report.model = "\xff";
  EXPECT_EQ(nlohmann::json::parse(ServiceJson(report, {}))["model"], "\xef\xbf\xbd");
}

}  // namespace
}  // namespace bastion::doctor
