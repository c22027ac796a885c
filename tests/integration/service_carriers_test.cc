// Tests the three services as processes, over every carrier: the text does not depend on the
// drafter, and a lost verifier loses no answer.
#include <gmock/gmock.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "tests/integration/services_fixture.h"

namespace bastion {
namespace {

// Tests that run over shared memory and over gRPC.
class ServiceCarriersTest : public ServicesTest, public ::testing::WithParamInterface<bool> {
 protected:
  testing::ServiceSystem& Start(std::vector<std::string> flags = {}) {
    testing::SystemOptions options;
    options.drafter = kModels + "/drafter";
    options.orchestrator_flags = std::move(flags);
    options.shared_memory = GetParam();
    return StartWith(std::move(options));
  }
};
INSTANTIATE_TEST_SUITE_P(Carriers, ServiceCarriersTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "SharedMemory" : "Inline"; });

TEST_P(ServiceCarriersTest, EveryPolicyGeneratesTheSameTextAloneAndWithConcurrentRequests) {
  testing::ServiceSystem& system = Start();
  GenerationClient& client = system.client();
  for (const float temperature : {0.0f, 1.0f}) {
    const Answer plain = Generate(client, Request("ar", 48, temperature));
    ASSERT_TRUE(plain.status.ok()) << plain.status;
    ASSERT_EQ(plain.tokens.size(), 48u);
    EXPECT_EQ(plain.finished.reason(), v1::FINISH_REASON_LENGTH);
    const std::vector<std::string> policies = {"chain",          "beam:3x4",
                                               "fixed:4",        "fixed:64",
                                               "bastion",        "adaptive",
                                               "default",        "ngram:8",
                                               "ngram:1",        "fixed:16+prior",
                                               "beam:3x4+prior", "adaptive+prior:request",
                                               "eagle",          "eagle:3,4,16+coupled+prior",
                                               "specblock:n=16"};
    std::vector<Answer> answers(policies.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < policies.size(); ++i) {
      threads.emplace_back(
          [&, i] { answers[i] = Generate(client, Request(policies[i], 48, temperature)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < policies.size(); ++i) {
      ASSERT_TRUE(answers[i].status.ok()) << policies[i] << ": " << answers[i].status;
      EXPECT_EQ(answers[i].tokens, plain.tokens) << policies[i] << " at " << temperature;
      EXPECT_EQ(answers[i].text, plain.text) << policies[i] << " at " << temperature;
    }
  }
  for (const char* service : {"orchestrator", "drafter"}) {
    EXPECT_THAT(system.Log(service),
                ::testing::HasSubstr(GetParam() ? "over shared memory" : "shared memory is off"));
  }
}

TEST_F(ServicesTest, TheCarrierChangesNoTokenAndNoTree) {
  Answer answers[2];
  for (const bool shared_memory : {false, true}) {
    testing::SystemOptions options;
    options.drafter = kModels + "/drafter";
    options.shared_memory = shared_memory;
    answers[shared_memory] =
        Generate(StartWith(std::move(options)).client(), Request("fixed:16", 64, 1));
    ASSERT_TRUE(answers[shared_memory].status.ok()) << answers[shared_memory].status;
  }
  EXPECT_EQ(answers[0].tokens, answers[1].tokens);
  ASSERT_EQ(answers[0].cycles.size(), answers[1].cycles.size());
  for (size_t i = 0; i < answers[0].cycles.size(); ++i) {
    EXPECT_EQ(answers[0].cycles[i].nodes(), answers[1].cycles[i].nodes());
    EXPECT_EQ(answers[0].cycles[i].committed_length(), answers[1].cycles[i].committed_length());
  }
}

TEST_P(ServiceCarriersTest, ALongPromptIsDraftedOnceTheDrafterHasCaughtUp) {
  testing::ServiceSystem& system = Start();
  const auto long_request = [](const std::string& policy) {
    v1::GenerateRequest request = Request(policy, 300);
    std::string prompt;
    for (int i = 0; i < 130; ++i) prompt += kPrompt;
    request.set_text(prompt);
    return request;
  };
  const Answer plain = Generate(system.client(), long_request("ar"));
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  const Answer answer = Generate(system.client(), long_request("fixed:8"));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_GT(answer.finished.usage().prompt_tokens(), 1024u);
  EXPECT_EQ(answer.cycles.front().nodes(), 0u) << "the drafter has read the whole prompt at once";
  EXPECT_EQ(answer.cycles.at(answer.cycles.size() - 20).nodes(), 8u);
  EXPECT_LT(answer.cycles.size(), 250u) << "no draft was accepted";
}

TEST_P(ServiceCarriersTest, AKilledDrafterCostsOnlySpeedAndSpeculationResumesWithTheNextDrafter) {
  testing::ServiceSystem& system = Start({"--draft_timeout=2s", "--stream_interval=0"});
  const Answer plain = Generate(system.client(), Request("ar", 300));
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  bool killed = false, restarted = false;
  const Answer answer = Generate(system.client(), Request("fixed:8", 300), [&](int cycles) {
    if (cycles >= 5 && !std::exchange(killed, true)) {
      system.drafter->Signal(SIGKILL);
      system.drafter->Wait();
    }
    // Slow the answer down, so that the new drafter can load before it ends.
    if (restarted) absl::SleepFor(absl::Milliseconds(20));
    if (cycles >= 20 && !std::exchange(restarted, true)) system.StartDrafter();
    return true;
  });
  ASSERT_TRUE(restarted) << "the answer ended before the drafter was restarted";
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, plain.tokens);
  const Answer after = Generate(system.client(), Request("fixed:8", 60));
  EXPECT_GT(after.finished.speculation().draft_tokens(), 0u);
}

TEST_P(ServiceCarriersTest, AnAnswerOutlivesItsVerifierAndDraftsResume) {
  testing::ServiceSystem& system = Start();
  const Answer before = Generate(system.client(), Request("ar", 400));
  bool killed = false;
  Answer refused;
  const Answer lost = Generate(system.client(), Request("ar", 400), [&](int cycles) {
    if (cycles < 5 || std::exchange(killed, true)) return true;
    system.verifier->Signal(SIGKILL);
    system.verifier->Wait();
    // A request that is accepted before the loss is noticed waits, too.
    while (GenerationClient(system.Address("orchestrator")).CheckHealth().ok()) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    refused = Generate(system.client(), Request("default", 1));
    system.StartVerifier();
    return true;
  });
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable) << refused.status;
  ASSERT_TRUE(lost.status.ok()) << lost.status;
  EXPECT_EQ(lost.tokens, before.tokens);
  EXPECT_EQ(lost.text, before.text);
  Answer after;
  for (int i = 0; i < 20 && after.finished.speculation().draft_tokens() == 0; ++i) {
    after = Generate(system.client(), Request("fixed:8", 40));
    ASSERT_TRUE(after.status.ok()) << after.status;
    absl::SleepFor(absl::Milliseconds(300));
  }
  EXPECT_GT(after.finished.speculation().draft_tokens(), 0u) << "the drafter did not reconnect";
}

}  // namespace
}  // namespace bastion
