// Runs the services with the further drafters of the demo target. Whatever drafts, requests get the
// texts of plain decoding: at any temperature, beside others, after reused prefixes, and if they
// are preempted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

constexpr int kRequests = 8;
constexpr int kTokens = 48;
// Sanitizers slow the engines down.
const std::vector<std::string> kPolicies =
    BASTION_SANITIZED ? std::vector<std::string>{"fixed:16"}
                      : std::vector<std::string>{"chain", "specblock", "eagle", "default"};

// The name of the drafter's folder, and whether stages share memory.
class ServiceDraftersTest : public ServicesTest,
                            public ::testing::WithParamInterface<std::tuple<const char*, bool>> {
 protected:
  // Decodes all requests at once. Prompts share their beginning.
  std::vector<std::vector<int>> Decode(const std::string& policy, float temperature) {
    std::vector<Answer> answers(kRequests);
    std::vector<std::thread> threads;
    for (int i = 0; i < kRequests; ++i) {
      threads.emplace_back([&, i] {
        v1::GenerateRequest request = Request(policy, kTokens, temperature);
        request.set_text(absl::StrCat(kPrompt, "    first = argv[", i, "]\n    second ="));
        answers[i] = Generate(system_->client(), request);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<std::vector<int>> texts;
    for (Answer& answer : answers) {
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      drafted_ += static_cast<int>(answer.finished.speculation().draft_tokens());
      reused_ += static_cast<int>(answer.finished.usage().cached_prompt_tokens());
      texts.push_back(std::move(answer.tokens));
    }
    return texts;
  }

  int drafted_ = 0, reused_ = 0;
};

TEST_P(ServiceDraftersTest, RequestsGetTheTextsOfPlainDecoding) {
  const auto [drafter, shared_memory] = GetParam();
  testing::SystemOptions options;
  // The drafter's folder must be beside that of its target (SystemOptions).
  const testing::TempFolder pair;
  const std::string drafters = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_drafters/";
  std::filesystem::create_directory_symlink(kModels + "/target", pair.File("target"));
  std::filesystem::copy(drafters + drafter, pair.File("drafter"));
  options.drafter = pair.File("drafter");
  options.shared_memory = shared_memory;
  // Less than all requests need.
  options.verifier_flags = {absl::StrCat("--kv_tokens=", kRequests * (kTokens + 20) / 2)};
  StartWith(std::move(options));
  for (const float temperature : {0.0F, 1.0F}) {
    const auto plain = Decode("ar", temperature);
    for (const std::string& policy : kPolicies) {
      drafted_ = 0;
      EXPECT_EQ(Decode(policy, temperature), plain) << policy << " at " << temperature;
      // `default` may decode plainly in a batch.
      EXPECT_TRUE(drafted_ > 0 || policy == "default") << policy;
    }
  }
  EXPECT_GT(reused_, 0);
  EXPECT_GT(system_->client().GetServerInfo()->preemptions(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Demo, ServiceDraftersTest,
                         ::testing::Values(std::tuple("autoregressive", true),
                                           std::tuple("eagle3", false),
                                           std::tuple("specblock", true)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param),
                                               std::get<1>(info.param) ? "_shared_memory" : "");
                         });

}  // namespace
}  // namespace bastion
