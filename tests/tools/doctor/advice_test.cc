#include "tools/doctor/advice.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Speculation Way(double committed, double break_even, double plain_seconds) {
  Speculation way;
  way.committed = committed;
  way.break_even = break_even;
  way.cycle_seconds = break_even * plain_seconds;
  way.speedup = committed / break_even;
  return way;
}

Level LevelOf(int requests, double decode_speedup, double speedup) {
  Level level;
  level.requests = requests;
  level.plain_seconds = 0.002;
  level.draft_seconds = 0.0002;
  level.drafted = Way(2.0, 2.0 / decode_speedup, level.plain_seconds);
  level.draft_free = Way(1.2, 1.2, level.plain_seconds);
  level.modeled_speedup = level.decode_speedup = decode_speedup;
  level.speedup = speedup;
  return level;
}

// A server without a problem: speculation pays at 1 request and not at 8.
ServiceReport GoodReport() {
  ServiceReport report;
  report.drafter = "demo-drafter";
  report.policy = "default";
  report.max_rows = 512;
  report.kv_tokens = 65536;
  report.forwards = {{1, 128, 0.002, 0.0012}, {8, 128, 0.0022, 0.0012}};
  report.prompts.requests = 32;
  report.prompts.prompt_tokens = 100;
  report.prompts.output_tokens = 128;
  report.prompts.prefill_seconds = 0.01;
  report.prompts.plain_seconds = 0.25;
  report.prompts.uses_table = true;
  report.levels = {LevelOf(1, 1.8, 1.7), LevelOf(8, 1.0, 1.0)};
  report.levels[1].drafted = Way(1.7, 1.9, 0.002);
  return report;
}

std::string Advice(const ServiceReport& report) { return absl::StrJoin(AdviceOn(report), "\n"); }

TEST(DoctorAdvice, TellsWhereSpeculationPaysAndWhereNot) {
  EXPECT_THAT(Advice(GoodReport()),
              AllOf(HasSubstr("Expected speedup: 1.70x at 1 request."),
                    HasSubstr("At 8 requests it does not pay: a cycle with drafts takes 1.9 times "
                              "as long as a plain one and commits 1.7 tokens")));
}

TEST(DoctorAdvice, GoodServicesGetNoWarning) {
  EXPECT_THAT(Advice(GoodReport()), AllOf(Not(HasSubstr("uncertain")), Not(HasSubstr("No drafter")),
                                          Not(HasSubstr("--")), Not(HasSubstr("built-in"))));
}

TEST(DoctorAdvice, AMissingDrafterIsNamedFirstAfterTheSpeedup) {
  ServiceReport report = GoodReport();
  report.drafter = "";
  for (Level& level : report.levels) level.drafted = std::nullopt;
  EXPECT_THAT(Advice(report), AllOf(HasSubstr("No drafter is connected"),
                                    HasSubstr("a cycle without drafts takes 1.2 times")));
}

TEST(DoctorAdvice, DraftsThatLoseToDraftFreeTreesAreNamed) {
  ServiceReport report = GoodReport();
  report.levels[0].draft_seconds = 0.001;
  report.levels[0].draft_free = Way(2.5, 1.1, 0.002);
  EXPECT_THAT(Advice(report),
              AllOf(HasSubstr("drafts are not worth their time: without them a cycle commits 2.50 "
                              "tokens in 2.20 ms"),
                    HasSubstr("A draft takes 50 % of a plain cycle")));
}

TEST(DoctorAdvice, TheShareOfTheLimitsDecidesWhatHelps) {
  ServiceReport report = GoodReport();
  report.forwards[0].roofline_seconds = 0.0018;
  EXPECT_THAT(Advice(report), HasSubstr("reaches 90 % of the device's limits. Only fewer bytes"));
  report.forwards[0].roofline_seconds = 0.0004;
  EXPECT_THAT(Advice(report), HasSubstr("reaches only 20 %"));
  report.forwards[0].roofline_seconds = 0.003;
  EXPECT_THAT(Advice(report), HasSubstr("because caches hold a part"));
}

TEST(DoctorAdvice, TheCostOfARowDecidesTheSizeOfTrees) {
  ServiceReport report = GoodReport();
  EXPECT_THAT(Advice(report), HasSubstr("costs only 1 % of a forward of one row"));
  report.forwards[1].seconds = 0.0034;
  EXPECT_THAT(Advice(report), HasSubstr("costs 10 % of a forward of one row, so only small trees"));
}

TEST(DoctorAdvice, WeakEvidenceIsAdmitted) {
  ServiceReport report = GoodReport();
  report.prompts.requests = 4;
  report.prompts.built_in = true;
  report.prompts.left_out = 3;
  report.other_requests = 2;
  EXPECT_THAT(Advice(report),
              AllOf(HasSubstr("rests on 512 tokens"), HasSubstr("These are built-in prompts"),
                    HasSubstr("3 prompts were left out"), HasSubstr("2 requests of others")));
}

TEST(DoctorAdvice, LimitsOfTheServerAreNamed) {
  ServiceReport report = GoodReport();
  report.policy = "fixed:16";
  report.unreached_requests = 16;
  report.kv_tokens = 1000;
  report.prompts.uses_table = false;
  report.prompts.prefill_seconds = 0.25;
  EXPECT_THAT(Advice(report),
              AllOf(HasSubstr("default policy is fixed:16"), HasSubstr("--max_running"),
                    HasSubstr("holds 4 requests of this length (228 tokens), fewer than 8"),
                    HasSubstr("No draft token came from a transition table"),
                    HasSubstr("prompts take 50 % of the time")));
}

}  // namespace
}  // namespace bastion::doctor
