// Tests the services with the demo models on the portable backend. The answers must equal those of
// the CPU kernels, within rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/integration/services_fixture.h"

namespace bastion {
namespace {

constexpr int kTokens = 60;

class TorchServicesTest : public ServicesTest {
 protected:
  GenerationClient& StartOn(const std::string& backend) {
    testing::SystemOptions options;
    options.drafter = kModels + "/drafter";
    options.backend = backend;
    return StartWith(std::move(options)).client();
  }
  static Answer GenerateWithLogprobs(GenerationClient& client, const std::string& policy,
                                     float temperature) {
    v1::GenerateRequest request = Request(policy, kTokens, temperature);
    request.mutable_output()->set_logprobs(2);
    return Generate(client, request);
  }
};

TEST_F(TorchServicesTest, AnswersMatchTheCpuBackendWithinRounding) {
  GenerationClient& cpu = StartOn("cpu");
  std::vector<Answer> expected;
  for (const float temperature : {0.0f, 0.8f}) {
    expected.push_back(GenerateWithLogprobs(cpu, "ar", temperature));
    ASSERT_TRUE(expected.back().status.ok()) << expected.back().status;
    ASSERT_EQ(expected.back().tokens.size(), size_t{kTokens});
  }
  GenerationClient& torch = StartOn("torch");
  const auto info = torch.GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_NE(info->device().find("libtorch"), std::string::npos) << info->device();
  for (const char* policy : {"ar", "fixed:16", "default"}) {
    for (const size_t which : {0, 1}) {
      const Answer answer = GenerateWithLogprobs(torch, policy, which == 0 ? 0.0f : 0.8f);
      ASSERT_TRUE(answer.status.ok()) << policy << ": " << answer.status;
      EXPECT_EQ(answer.text, expected[which].text) << policy;
      ASSERT_EQ(answer.tokens, expected[which].tokens) << policy;
      ASSERT_EQ(answer.logprobs.size(), answer.tokens.size()) << policy;
      for (int i = 0; i < kTokens; ++i) {
        EXPECT_NEAR(answer.logprobs[i].logprob(), expected[which].logprobs[i].logprob(), 1e-3);
      }
      // The text would be the same if no draft were accepted, so check that some are.
      if (std::string(policy) == "fixed:16") {
        EXPECT_GT(answer.finished.speculation().mean_committed_length(), 1.2);
      }
    }
  }
}

}  // namespace
}  // namespace bastion
