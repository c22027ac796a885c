// A verifier that is killed, hangs or is replaced: answers wait and continue with the same text,
// and health tells the truth.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "tests/faults/faults_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using testing::FaultsTest;
using testing::RunningAnswer;
using testing::ServiceSystem;

constexpr int kTokens = 300;

// Eight requests that differ in policy, temperature and length.
std::vector<v1::GenerateRequest> EightRequests() {
  const char* const policies[] = {"ar", "default", "fixed:8", "chain"};
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 8; ++i) {
    const float temperature = i % 2 == 0 ? 0.0f : 0.9f;
    requests.push_back(Request(policies[i / 2], kTokens + 10 * i, temperature));
    requests.back().mutable_sampling()->set_seed(i);
  }
  return requests;
}

class LostVerifierTest : public FaultsTest {
 protected:
  // The texts of `requests`, undisturbed.
  static std::vector<std::string> Texts(ServiceSystem& system,
                                        const std::vector<v1::GenerateRequest>& requests) {
    std::vector<std::string> texts;
    for (const v1::GenerateRequest& request : requests) {
      const Answer answer = Generate(system.client(), request);
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      texts.push_back(answer.text);
    }
    return texts;
  }
};

TEST_F(LostVerifierTest, KilledDuringEightAnswersAllEndWithTheSameText) {
  ServiceSystem& system = StartServices();
  const auto requests = EightRequests();
  const std::vector<std::string> texts = Texts(system, requests);
  std::mt19937 random(1);
  std::vector<std::unique_ptr<RunningAnswer>> answers;
  answers.reserve(requests.size());
  for (const auto& request : requests) {
    answers.push_back(std::make_unique<RunningAnswer>(system, request));
  }
  ASSERT_TRUE(answers[0]->AwaitCycles(3));
  for (int kill = 0; kill < 3; ++kill) {
    absl::SleepFor(absl::Milliseconds(random() % 100));
    system.verifier->Signal(SIGKILL);
    system.verifier->Wait();
    EXPECT_LT(TimeUntilServing(false), absl::Milliseconds(1500));
    system.StartVerifier();
    ASSERT_TRUE(system.AwaitServing());
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i]->Wait();
    ASSERT_TRUE(answer.status.ok()) << i << ": " << answer.status;
    EXPECT_EQ(answer.text, texts[i]) << i;
  }
  EXPECT_TRUE(AwaitRunning(0));
}

TEST_F(LostVerifierTest, StoppedWhileIdleHealthFollowsAndServingResumes) {
  ServiceSystem& system = StartServices();
  const auto request = Request("default", 40);
  const Answer before = Generate(system.client(), request);
  system.verifier->Signal(SIGSTOP);
  EXPECT_LT(TimeUntilServing(false), absl::Milliseconds(1500));
  // Refused at once, not after a timeout.
  StopWatch watch;
  EXPECT_EQ(Generate(system.client(), request).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(watch.Lap(), absl::Milliseconds(500));
  system.verifier->Signal(SIGCONT);
  EXPECT_LT(TimeUntilServing(true), absl::Seconds(5));
  const Answer after = Generate(system.client(), request);
  ASSERT_TRUE(after.status.ok()) << after.status;
  EXPECT_EQ(after.text, before.text);
}

TEST_F(LostVerifierTest, KilledWhileIdleHealthFollows) {
  ServiceSystem& system = StartServices();
  system.verifier->Signal(SIGKILL);
  system.verifier->Wait();
  EXPECT_LT(TimeUntilServing(false), absl::Milliseconds(1500));
}

TEST_F(LostVerifierTest, StoppedDuringAnswersTheyContinueWhenItRuns) {
  ServiceSystem& system = StartServices();
  const std::vector<v1::GenerateRequest> requests = {Request("default", 600, 0.8f),
                                                     Request("ar", 400)};
  const std::vector<std::string> texts = Texts(system, requests);
  RunningAnswer first(system, requests[0]), second(system, requests[1]);
  ASSERT_TRUE(first.AwaitCycles(3));
  ASSERT_TRUE(second.AwaitCycles(3));
  system.verifier->Signal(SIGSTOP);
  EXPECT_LT(TimeUntilServing(false), absl::Milliseconds(1800));
  absl::SleepFor(absl::Seconds(1));
  system.verifier->Signal(SIGCONT);
  ASSERT_TRUE(first.Wait().status.ok()) << first.Wait().status;
  ASSERT_TRUE(second.Wait().status.ok()) << second.Wait().status;
  EXPECT_EQ(first.Wait().text, texts[0]);
  EXPECT_EQ(second.Wait().text, texts[1]);
}

TEST_F(LostVerifierTest, NotReturningInTimeEndsAnswersWithUnavailable) {
  ServiceSystem& system = StartServices({"--verifier_patience=1s"});
  RunningAnswer answer(system, Request("ar", 1500));
  ASSERT_TRUE(answer.AwaitCycles(3));
  system.verifier->Signal(SIGKILL);
  system.verifier->Wait();
  EXPECT_EQ(answer.Wait().status.code(), absl::StatusCode::kUnavailable) << answer.Wait().status;
}

TEST_F(LostVerifierTest, AnotherCheckpointOfTheSameShapeEndsAnswersAndIsProfiled) {
  // A folder whose checkpoint the test replaces.
  const testing::TempFolder folder;
  const std::string target = folder.File("target");
  std::filesystem::copy(kModels + "/target", target, std::filesystem::copy_options::recursive);
  ServiceSystem& system = StartServices({}, target);
  RunningAnswer answer(system, Request("ar", 1500));
  ASSERT_TRUE(answer.AwaitCycles(3));
  system.verifier->Signal(SIGKILL);
  system.verifier->Wait();
  const std::string weights = target + "/model.safetensors";
  {
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.good());
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(weights) / 2));
    file.write(std::string(size_t{1} << 18, '\0').data(), 1 << 18);
  }
  system.StartVerifier();
  EXPECT_EQ(answer.Wait().status.code(), absl::StatusCode::kUnavailable) << answer.Wait().status;
  EXPECT_TRUE(system.AwaitServing());
  const std::string log = system.Log("orchestrator");
  const auto first = log.find("cost model profiled");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(log.find("cost model profiled", first + 1), std::string::npos)
      << "the other model was taken for the same one";
}

}  // namespace
}  // namespace bastion
