// Tests the three services as processes with the largest trees of the papers, and a stored
// profile.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

TEST_F(ServicesTest, ATreeOf1024NodesIsVerifiedOverEveryCarrier) {
  for (const bool shared_memory : {false, true}) {
    testing::SystemOptions options;
    options.drafter = kModels + "/drafter";
    options.shared_memory = shared_memory;
    options.verifier_flags = {"--max_rows=1025"};
    options.orchestrator_flags = {"--max_tree_nodes=1024"};
    testing::ServiceSystem& system = StartWith(std::move(options));
    const Answer plain = Generate(system.client(), Request("ar", 24));
    const Answer answer = Generate(system.client(), Request("fixed:1024", 24));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, plain.tokens);
    ASSERT_FALSE(answer.cycles.empty());
    const v1::CycleReport& first = answer.cycles[0];
    EXPECT_EQ(first.nodes(), 1024u);
    EXPECT_EQ(first.rows(), 1025u);
    EXPECT_EQ(first.budget_reason(), "policy");
    EXPECT_GT(first.expected_length(), 1);
    EXPECT_GT(first.context(), 5u);
    EXPECT_LT(answer.cycles.size(), 24u) << "nothing was accepted";
  }
}

TEST_F(ServicesTest, ATreeThatIsCutSaysByWhat) {
  testing::ServiceSystem& system = Start({"--max_tree_nodes=1024"});
  const Answer rows = Generate(system.client(), Request("fixed:1024", 8));
  ASSERT_TRUE(rows.status.ok()) << rows.status;
  EXPECT_EQ(rows.cycles.at(0).nodes(), 511u);
  EXPECT_EQ(rows.cycles.at(0).budget_reason(), "rows");
  v1::GenerateRequest request = Request("fixed:1024", 8);
  request.mutable_speculation()->set_max_tree_nodes(7);
  const Answer limited = Generate(system.client(), request);
  ASSERT_TRUE(limited.status.ok()) << limited.status;
  EXPECT_EQ(limited.cycles.at(0).budget_reason(), "request_limit");
  const Answer bastion = Generate(system.client(), Request("bastion:ema-calib,n=3", 8));
  ASSERT_TRUE(bastion.status.ok()) << bastion.status;
  EXPECT_LE(bastion.cycles.at(0).nodes(), 3u);
}

TEST_F(ServicesTest, AStoredProfileIsUsedAndThatOfAnotherDeviceIsRefused) {
  const testing::TempFolder folder;
  const std::string path = folder.File("profile.json");
  testing::ServiceSystem& system = Start({absl::StrCat("--latency_profile=", path)});
  ASSERT_TRUE(std::filesystem::exists(path));
  std::ifstream stream(path);
  std::string content((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(content, HasSubstr("\"target\":\"target\""));
  const auto written = std::filesystem::last_write_time(path);
  system.orchestrator->Signal(SIGTERM);
  system.orchestrator->Wait();
  system.StartOrchestrator();
  ASSERT_TRUE(system.AwaitServing()) << system.Log("orchestrator");
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  system.orchestrator->Signal(SIGTERM);
  system.orchestrator->Wait();
  content.replace(content.find("\"device\":\""), 10, "\"device\":\"another ");
  std::ofstream(path) << content;
  system.StartOrchestrator();
  EXPECT_FALSE(system.AwaitServing(absl::Seconds(5)));
  EXPECT_THAT(system.Log("orchestrator"), HasSubstr("profile of target on another "));
  EXPECT_THAT(system.Log("orchestrator"), HasSubstr("remove this one to profile again"));
}

}  // namespace
}  // namespace bastion
