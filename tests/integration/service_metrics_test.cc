// Tests metrics of real services.
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "gtest/gtest.h"
#include "tests/integration/telemetry_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

// The metrics that a file in deploy/grafana names.
std::set<std::string> MetricsNamedIn(const std::string& file) {
  std::ifstream stream(std::string(BASTION_SOURCE_DIR) + "/deploy/grafana/" + file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const std::regex metric("bastion_[a-z0-9_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), metric),
          std::sregex_token_iterator()};
}

TEST_P(TelemetryTest, TheCountersEqualTheSumOfTheStatisticsOfAllRequests) {
  testing::ServiceSystem& system = StartTraced(GetParam());
  double tokens = 0, nodes = 0, accepted = 0, cycles = 0;
  for (const char* policy : {"ar", "fixed:8", "default", "adaptive"}) {
    v1::GenerateRequest request = Request(policy, 50);
    request.set_n(policy == std::string("fixed:8") ? 2 : 1);
    ASSERT_TRUE(system.client()
                    .Generate(request,
                              [&](const v1::GenerateResponse& event) {
                                if (!event.has_finished()) return true;
                                const v1::SpeculationStats& stats = event.finished().speculation();
                                tokens += event.finished().usage().completion_tokens();
                                nodes += static_cast<double>(stats.draft_tokens());
                                accepted += static_cast<double>(stats.accepted_tokens());
                                cycles += stats.cycles();
                                return true;
                              })
                    .ok());
  }
  EXPECT_TRUE(AwaitRunning(0));
  const std::string text = Scrape("orchestrator");
  EXPECT_EQ(Metric(text, "bastion_requests_total"), 5);
  EXPECT_EQ(Metric(text, "bastion_generation_tokens_total"), tokens);
  EXPECT_EQ(Metric(text, "bastion_spec_draft_tokens_total"), nodes);
  EXPECT_EQ(Metric(text, "bastion_spec_accepted_tokens_total"), accepted);
  EXPECT_EQ(Metric(text, "bastion_spec_tree_nodes_count"), cycles);
  EXPECT_GT(Metric(text, "bastion_speedup_ratio"), 0.3);
  EXPECT_GT(Metric(Scrape("drafter"), "bastion_drafter_drafts_total"), 0);
  const std::string verifier = Scrape("verifier");
  EXPECT_GT(Metric(verifier, "bastion_verifier_rows_total"), nodes);
  EXPECT_EQ(Metric(verifier, "bastion_verifier_sequences"), 0);
}

TEST_F(TelemetryTest, PromtoolAcceptsTheMetricsAndTheDashboardNamesOnlyExistingOnes) {
  testing::ServiceSystem& system = StartTraced(true);
  ASSERT_TRUE(Generate(system.client(), Request("default", 20)).status.ok());
  const testing::TempFolder folder;
  std::string all;
  for (const char* service : {"orchestrator", "drafter", "verifier"}) {
    const std::string file = folder.File("metrics.txt");
    const std::string text = Scrape(service);
    std::ofstream(file) << text;
    absl::StrAppend(&all, text);
    // It prints its findings to stderr.
    EXPECT_EQ(std::system(absl::StrCat(BASTION_PROMTOOL, " check metrics < ", file).c_str()), 0)
        << service;
    EXPECT_TRUE(absl::StrContains(text, "\nbastion_connections_refused_total{")) << service;
  }
  for (const char* file : {"dashboard.json", "alerts.yaml"}) {
    const std::set<std::string> names = MetricsNamedIn(file);
    EXPECT_GE(names.size(), 5u) << file;
    for (const std::string& name : names) {
      EXPECT_TRUE(absl::StrContains(all, absl::StrCat("\n", name, "{"))) << file << ": " << name;
    }
  }
}

}  // namespace
}  // namespace bastion
