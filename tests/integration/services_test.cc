// Tests the three services as processes: requests get correct answers or clear errors, and no
// client affects another client.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "bastion/v1/generation.grpc.pb.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

TEST_F(ServicesTest, TheStatisticsOfAnAnswerAreConsistent) {
  const Answer answer = Generate(Start().client(), Request("fixed:16", 40));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  uint32_t committed = 0, nodes = 0;
  for (const v1::CycleReport& cycle : answer.cycles) {
    committed += cycle.committed_length();
    nodes += cycle.nodes();
  }
  EXPECT_EQ(committed, answer.tokens.size());
  EXPECT_EQ(answer.finished.usage().completion_tokens(), answer.tokens.size());
  EXPECT_EQ(answer.finished.speculation().cycles(), answer.cycles.size());
  EXPECT_EQ(answer.finished.speculation().draft_tokens(), nodes);
  EXPECT_GT(answer.finished.speculation().mean_committed_length(), 1.2);
}

TEST_F(ServicesTest, WithoutADrafterDraftFreeTreesAreUsed) {
  testing::ServiceSystem& system = Start({"--draft_timeout=2s"});
  const Answer plain = Generate(system.client(), Request("ar", 200));
  system.drafter->Signal(SIGKILL);
  system.drafter->Wait();
  for (const char* policy : {"default", "fixed:4+prior"}) {
    // How much `default` speculates follows from measured times, which sanitizers distort.
    const bool distorted = BASTION_SANITIZED && policy == std::string_view("default");
    const Answer answer = Generate(system.client(), Request(policy, 200));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, plain.tokens) << policy;
    EXPECT_GT(answer.finished.speculation().mean_committed_length(), distorted ? 1.0 : 1.5)
        << policy;
  }
}

TEST_F(ServicesTest, APrefixIsReusedWithItsAcceptanceButNotUnderAnotherSalt) {
  testing::ServiceSystem& system = Start({"--draft_timeout=2s"});
  v1::GenerateRequest request = Request("fixed:16", 60);
  std::string text;
  for (int i = 0; i < 20; ++i) absl::StrAppend(&text, "import module", i, "\n");
  request.set_text(text);
  std::vector<std::vector<uint32_t>> committed;
  std::vector<uint32_t> reused;
  for (const char* salt : {"alice", "bob", "bob"}) {
    request.set_cache_salt(salt);
    const Answer answer = Generate(system.client(), request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    reused.push_back(answer.finished.usage().cached_prompt_tokens());
    std::vector<uint32_t>& lengths = committed.emplace_back();
    for (const v1::CycleReport& cycle : answer.cycles) lengths.push_back(cycle.committed_length());
  }
  EXPECT_EQ(reused[0], 0u);
  EXPECT_EQ(reused[1], 0u);
  EXPECT_GT(reused[2], 50u);
  EXPECT_LT(committed[0].size(), 60u) << "no drafts were accepted";
  EXPECT_EQ(committed[1], committed[0]);
  EXPECT_EQ(committed[2], committed[0]);
}

TEST_F(ServicesTest, EachOfSeveralAnswersIsThatOfARequestWithItsSeed) {
  testing::ServiceSystem& system = Start({"--draft_timeout=2s"});
  v1::GenerateRequest request = Request("fixed:8", 40, /*temperature=*/0.9f);
  request.set_text(std::string(kPrompt) + "    if len(argv) < 2:\n        print('usage')\n");
  constexpr int kAnswers = 5;
  request.set_n(kAnswers);
  std::vector<std::vector<int>> tokens(kAnswers);
  std::vector<v1::Finished> finished(kAnswers);
  ASSERT_TRUE(system.client()
                  .Generate(request,
                            [&](const v1::GenerateResponse& event) {
                              const auto& ids = event.delta().token_ids();
                              std::vector<int>& answer = tokens.at(event.delta().answer());
                              answer.insert(answer.end(), ids.begin(), ids.end());
                              if (event.has_finished()) {
                                finished.at(event.finished().answer()) = event.finished();
                              }
                              return true;
                            })
                  .ok());
  request.clear_n();
  for (int i = 0; i < kAnswers; ++i) {
    request.mutable_sampling()->set_seed(7 + i);
    EXPECT_EQ(finished[i].seed(), 7u + i);
    EXPECT_EQ(finished[i].usage().completion_tokens(), 40u);
    EXPECT_EQ(finished[i].usage().cached_prompt_tokens() > 0, i > 0);
    EXPECT_EQ(tokens[i], Generate(system.client(), request).tokens) << i;
  }
  EXPECT_NE(tokens[0], tokens[1]);
}

TEST_F(ServicesTest, ALearnedPriorSpeedsUpTheNextOrchestrator) {
  const testing::TempFolder folder;
  const std::string file = folder.File("learned.safetensors");
  testing::ServiceSystem& system = Start({"--learn_prior=" + file});
  const auto empty = std::filesystem::file_size(file);
  // This policy uses no drafter, so its acceptance depends on the prior alone.
  const Answer first = Generate(system.client(), Request("ngram:8", 120));
  ASSERT_TRUE(first.status.ok()) << first.status;
  system.orchestrator->Signal(SIGTERM);
  EXPECT_EQ(system.orchestrator->Wait(), 0);
  // The counts of one answer exceed the initial capacity, so the file grows.
  EXPECT_GT(std::filesystem::file_size(file), empty);
  system.StartOrchestrator();
  ASSERT_TRUE(system.AwaitServing()) << system.Log("orchestrator");
  const Answer again = Generate(system.client(), Request("ngram:8", 120));
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_GT(again.finished.speculation().mean_committed_length(),
            1.1 * first.finished.speculation().mean_committed_length());
}

TEST_F(ServicesTest, ACanceledRequestFreesItsSequence) {
  testing::ServiceSystem& system = Start();
  const Answer canceled =
      Generate(system.client(), Request("ar", 1500), [](int cycles) { return cycles < 3; });
  EXPECT_EQ(canceled.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(AwaitRunning(0));
}

TEST_F(ServicesTest, AClientThatReadsNothingIsDroppedWhileOthersAreServed) {
  testing::ServiceSystem& system = Start({"--slow_client=1s", "--stream_interval=0"});
  // A fixed flow-control window, which the answer's log-probabilities fill many times.
  grpc::ChannelArguments small_window;
  small_window.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel = grpc::CreateCustomChannel(system.Address("orchestrator"),
                                                 grpc::InsecureChannelCredentials(), small_window);
  grpc::ClientContext context;
  v1::GenerateRequest request = Request("ar", 1900);
  request.mutable_output()->set_logprobs(100);
  const auto reader = v1::GenerationService::NewStub(channel)->Generate(&context, request);
  ASSERT_TRUE(AwaitRunning(1));
  const Answer other = Generate(system.client(), Request("default", 40));
  EXPECT_TRUE(other.status.ok()) << other.status;
  EXPECT_TRUE(AwaitRunning(0));
  v1::GenerateResponse event;
  bool finished = false;
  while (reader->Read(&event)) finished = finished || event.has_finished();
  EXPECT_FALSE(finished) << "the whole answer fitted into the transport's buffers";
  // The server can end a call whose write is blocked only by canceling it.
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServicesTest, AFastAnswerIsSentCompletelyInFewMessages) {
  GenerationClient& client = Start({"--stream_interval=100ms"}).client();
  int messages = 0;
  const Answer answer = Generate(client, Request("ar", 400), [&](int) { return ++messages > 0; });
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens.size(), 400u);
  EXPECT_EQ(answer.cycles.size(), 400u);
  const google::protobuf::Duration& decode = answer.finished.timings().decode();
  EXPECT_LE(messages, 2 + 10 * (decode.seconds() + 1e-9 * decode.nanos()));
}

TEST_F(ServicesTest, SigtermFinishesRunningRequestsAndRefusesNewOnes) {
  testing::ServiceSystem& system = Start();
  absl::Status late;
  bool signaled = false;
  const Answer answer = Generate(system.client(), Request("ar", 400), [&](int cycles) {
    if (cycles >= 5 && !std::exchange(signaled, true)) {
      system.orchestrator->Signal(SIGTERM);
      // The signal takes effect within milliseconds, long before the running request is done.
      while (late.ok()) late = Generate(system.client(), Request("ar", 1)).status;
    }
    return true;
  });
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens.size(), 400u);
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable) << late;
  EXPECT_EQ(system.orchestrator->Wait(), 0);
}

TEST_F(ServicesTest, ADrafterOfAnotherTargetIsLoggedAndNotUsed) {
  testing::ServiceSystem& system =
      Start({}, testing::GoldenFolder("gqa1_tied_draft1") + "/drafter");
  const Answer answer = Generate(system.client(), Request("fixed:16", 20));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.finished.speculation().draft_tokens(), 0u);
  EXPECT_THAT(system.Log("orchestrator"),
              ::testing::HasSubstr("start the drafter that was trained for this target"));
}

TEST_F(ServicesTest, APeerWithAnotherProtocolVersionIsRefused) {
  testing::ServiceSystem& system = Start();
  for (const char* version : {"99", ""}) {
    grpc::ClientContext context;
    if (*version != '\0') context.AddMetadata("bastion-protocol", version);
    internal::v1::TargetInfo info;
    const auto stub = internal::v1::VerifierService::NewStub(
        grpc::CreateChannel(system.Address("verifier"), grpc::InsecureChannelCredentials()));
    const grpc::Status status = stub->GetInfo(&context, {}, &info);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("protocol version"));
  }
}

TEST_F(ServicesTest, ErrorsNameTheInvalidField) {
  GenerationClient& client = Start().client();
  const auto expect = [&](absl::StatusCode code, const std::string& field,
                          const std::function<void(v1::GenerateRequest&)>& change) {
    v1::GenerateRequest request = Request("default", 8);
    change(request);
    const absl::Status status = Generate(client, request).status;
    EXPECT_EQ(status.code(), code) << field << ": " << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(field));
  };
  const auto kBad = absl::StatusCode::kInvalidArgument;
  expect(kBad, "prompt", [](auto& r) { r.set_text(""); });
  expect(kBad, "prompt", [](auto& r) { r.clear_prompt(); });
  expect(kBad, "context", [](auto& r) { r.set_text(std::string(40000, 'x') + " y z"); });
  expect(kBad, "tokens", [](auto& r) { r.mutable_tokens()->add_ids(1 << 20); });
  expect(absl::StatusCode::kNotFound, "gpt", [](auto& r) { r.set_model("gpt"); });
  expect(kBad, "max_tokens", [](auto& r) { r.mutable_stop()->set_max_tokens(0); });
  expect(kBad, "temperature", [](auto& r) { r.mutable_sampling()->set_temperature(NAN); });
  expect(kBad, "temperature", [](auto& r) { r.mutable_sampling()->set_temperature(-1); });
  expect(kBad, "top_k", [](auto& r) { r.mutable_sampling()->set_top_k(-5); });
  expect(kBad, "top_p", [](auto& r) { r.mutable_sampling()->set_top_p(1.1f); });
  expect(kBad, "policy", [](auto& r) { r.mutable_speculation()->set_policy("fixed:x"); });
  expect(kBad, "stop", [](auto& r) { r.mutable_stop()->add_stop(""); });
  expect(kBad, "chat", [](auto& r) { r.mutable_chat()->add_messages()->set_role("user"); });
  // The service still works.
  EXPECT_TRUE(Generate(client, Request("default", 8)).status.ok());
}

TEST_F(ServicesTest, SpeculationIsExactWithSamplingControlsAndPassesTheAudit) {
  testing::SystemOptions options;
  options.drafter = kModels + "/drafter";
  options.verifier_flags = {"--audit_fraction=1"};
  GenerationClient& client = StartWith(std::move(options)).client();
  const auto request = [](const std::string& policy) {
    v1::GenerateRequest request = Request(policy, 40, 0.9f);
    v1::SamplingParams& sampling = *request.mutable_sampling();
    sampling.set_top_p(0.95f);
    sampling.set_top_k(200);
    sampling.set_min_p(0.01f);
    sampling.set_repetition_penalty(1.2f);
    sampling.set_presence_penalty(0.3f);
    sampling.set_frequency_penalty(0.4f);
    (*sampling.mutable_logit_bias())[11] = 2.0f;
    request.mutable_stop()->set_min_tokens(20);
    request.mutable_output()->set_logprobs(2);
    return request;
  };
  const Answer plain = Generate(client, request("ar"));
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  for (const char* policy : {"fixed:16", "fixed:16+coupled", "adaptive", "default"}) {
    const Answer answer = Generate(client, request(policy));
    ASSERT_TRUE(answer.status.ok()) << policy << ": " << answer.status;
    EXPECT_EQ(answer.tokens, plain.tokens) << policy;
    EXPECT_EQ(answer.text, plain.text) << policy;
    ASSERT_EQ(answer.logprobs.size(), answer.tokens.size()) << policy;
    for (size_t i = 0; i < answer.tokens.size(); ++i) {
      EXPECT_EQ(answer.logprobs[i].token_id(), answer.tokens[i]);
      EXPECT_EQ(answer.logprobs[i].logprob(), plain.logprobs[i].logprob());
      ASSERT_EQ(answer.logprobs[i].top_size(), 2);
      EXPECT_GE(answer.logprobs[i].top(0).logprob(), answer.logprobs[i].top(1).logprob());
    }
  }
  ASSERT_TRUE(AwaitRunning(0));
  const auto info = client.GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_GE(info->audited_tokens(), 5u * 40);
  EXPECT_EQ(info->audit_mismatches(), 0u);
}

TEST_F(ServicesTest, AStopStringEndsTextAndTokens) {
  GenerationClient& client = Start().client();
  const Answer whole = Generate(client, Request("ar", 60));
  ASSERT_GT(whole.text.size(), 20u);
  v1::GenerateRequest request = Request("fixed:16", 60);
  const std::string stop = whole.text.substr(12, 4);
  request.mutable_stop()->add_stop(stop);
  const Answer answer = Generate(client, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(answer.finished.stop_string(), stop);
  EXPECT_EQ(answer.finished.reason(), v1::FINISH_REASON_STOP);
  // The tokens also end where the stop string is complete, for any number of tokens per cycle.
  request.mutable_speculation()->set_policy("ar");
  const Answer plain = Generate(client, request);
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_EQ(answer.finished.usage().completion_tokens(), plain.tokens.size());
  // Stop strings within the first min_tokens tokens are ignored.
  request.mutable_stop()->set_min_tokens(60);
  const Answer longer = Generate(client, request);
  EXPECT_EQ(longer.text, whole.text);
}

}  // namespace
}  // namespace bastion
