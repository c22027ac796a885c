// A fixture that runs the three services as processes, and helpers to send requests.
#ifndef BASTION_TESTS_INTEGRATION_SERVICES_FIXTURE_H_
#define BASTION_TESTS_INTEGRATION_SERVICES_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/service_process.h"

namespace bastion {

inline const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
constexpr char kPrompt[] = "import os\nimport sys\n\n\ndef main(argv):\n";

struct Answer {
  absl::Status status;
  std::string text;
  std::vector<int> tokens;
  v1::Finished finished;
  std::vector<v1::CycleReport> cycles;
  std::vector<v1::TokenLogprobs> logprobs;
};

inline v1::GenerateRequest Request(const std::string& policy, int tokens, float temperature = 0) {
  v1::GenerateRequest request;
  request.set_text(kPrompt);
  request.mutable_sampling()->set_temperature(temperature);
  request.mutable_sampling()->set_seed(7);
  request.mutable_stop()->set_max_tokens(tokens);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_output()->set_token_ids(true);
  request.mutable_output()->set_cycles(true);
  request.mutable_speculation()->set_policy(policy);
  return request;
}

// Sends `request` and collects the answer. Calls `on_delta` after each delta with the number of
// cycles so far; if it returns false, the request is canceled.
inline Answer Generate(GenerationClient& client, const v1::GenerateRequest& request,
                       const std::function<bool(int)>& on_delta = nullptr) {
  Answer answer;
  answer.status = client.Generate(
      request,
      [&](const v1::GenerateResponse& event) {
        if (event.has_finished()) answer.finished = event.finished();
        if (!event.has_delta()) return true;
        answer.text += event.delta().text();
        const auto& ids = event.delta().token_ids();
        answer.tokens.insert(answer.tokens.end(), ids.begin(), ids.end());
        const auto& cycles = event.delta().cycles();
        answer.cycles.insert(answer.cycles.end(), cycles.begin(), cycles.end());
        const auto& logprobs = event.delta().logprobs();
        answer.logprobs.insert(answer.logprobs.end(), logprobs.begin(), logprobs.end());
        return on_delta == nullptr || on_delta(static_cast<int>(answer.cycles.size()));
      },
      // A test sees every error.
      {.timeout = absl::Minutes(2), .retry = {.max_attempts = 1}});
  return answer;
}

class ServicesTest : public ::testing::Test {
 protected:
  testing::ServiceSystem& Start(std::vector<std::string> flags = {},
                                const std::string& drafter = kModels + "/drafter") {
    testing::SystemOptions options;
    options.drafter = drafter;
    options.orchestrator_flags = std::move(flags);
    return StartWith(std::move(options));
  }
  testing::ServiceSystem& StartWith(testing::SystemOptions options) {
    options.target = kModels + "/target";
    system_ = std::make_unique<testing::ServiceSystem>(options);
    system_->StartVerifier();
    system_->StartDrafter();
    system_->StartOrchestrator();
    EXPECT_TRUE(system_->AwaitServing()) << system_->Log("orchestrator");
    return *system_;
  }
  void TearDown() override {
    if (!HasFailure() || system_ == nullptr) return;
    for (const char* service : {"verifier", "drafter", "orchestrator"}) {
      std::cerr << "---- " << service << "\n" << system_->Log(service);
    }
  }
  // Waits until the orchestrator runs `count` requests; false after a minute.
  bool AwaitRunning(uint32_t count) {
    for (int i = 0; i < 1200; ++i) {
      const auto info = system_->client().GetServerInfo();
      if (info.ok() && info->running_requests() == count) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }

  std::unique_ptr<testing::ServiceSystem> system_;
};

}  // namespace bastion

#endif  // BASTION_TESTS_INTEGRATION_SERVICES_FIXTURE_H_
