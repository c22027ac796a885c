// Overloads the orchestrator with requests over gRPC, on the demo models: many more clients than
// slots, and a KV cache for a fifth of the requests that run together. Clients cancel, disappear
// and set deadlines. Every complete text must equal the text of the same request alone.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "orchestrator/api/generation_service.h"
#include "tests/conformance/in_process.h"
#include "tools/bench/prompts.h"

namespace bastion {
namespace {

const std::string kModels = BASTION_SOURCE_DIR "/deploy/demo_model";
constexpr int kRequests = BASTION_OVERLOAD_REQUESTS;
constexpr int kTexts = 12;  // Different prompts.
constexpr int kMaxPrompt = 60, kMaxOutput = 110;
constexpr int kClients = 64, kRunning = 32;
// The KV cache holds 1/kScarcity of the requests that run together. With few requests, in builds
// with sanitizers, it is smaller, so that some are preempted at any speed.
constexpr int kScarcity = kRequests < 500 ? 8 : 5;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  // A number from `least` to `most`.
  int Roll(int least, int most) { return std::uniform_int_distribution(least, most)(engine_); }

 private:
  std::mt19937 engine_;
};

// What one client does.
struct Plan {
  size_t text = 0;  // The index of its prompt.
  v1::GenerateRequest request;
  std::string client = {};
  absl::Duration deadline = absl::InfiniteDuration();  // After the start of the call.
  // The client cancels the call when the request is accepted and it has this many tokens.
  std::optional<size_t> cancel_after = {};
};

// A complete answer, or the part of it that came before an error.
struct Answer {
  grpc::Status status;
  std::vector<TokenId> tokens;
  uint64_t accepted = 0;  // Nodes of draft trees.
};

class OverloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto prompts = LoadPrompts(kModels + "/prompts.jsonl", kModels + "/target");
    ASSERT_TRUE(prompts.ok()) << prompts.status();
    ASSERT_GE(prompts->size(), static_cast<size_t>(kTexts));
    for (int i = 0; i < kTexts; ++i) requests_.push_back(MakeRequest((*prompts)[i].tokens, i));
    for (int i = 0; i < kRequests; ++i) plans_.push_back(MakePlan());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  // A request for the longest text of `prompt`, decoded without speculation.
  v1::GenerateRequest MakeRequest(const std::vector<TokenId>& prompt, int index) {
    v1::GenerateRequest request;
    const auto length = std::min<size_t>(prompt.size(), dice_.Roll(2, kMaxPrompt));
    request.mutable_tokens()->mutable_ids()->Assign(prompt.begin(), prompt.begin() + length);
    request.mutable_sampling()->set_seed(index);
    if (index % 2 == 1) {
      request.mutable_sampling()->set_temperature(0.8f);
      request.mutable_sampling()->set_presence_penalty(0.5f);  // Depends on the output so far.
    }
    request.mutable_stop()->set_max_tokens(kMaxOutput);
    request.mutable_stop()->set_ignore_eos(true);
    request.mutable_output()->set_token_ids(true);
    request.mutable_speculation()->set_policy("ar");
    return request;
  }

  Plan MakePlan() {
    static constexpr std::array kPolicies = {"ar",      "chain",    "fixed:16", "beam:4x4",
                                             "ngram:6", "adaptive", "default",  "fixed:32+coupled"};
    Plan plan;
    plan.text = dice_.Roll(0, kTexts - 1);
    plan.request = requests_[plan.text];
    plan.request.mutable_stop()->set_max_tokens(dice_.Roll(1, kMaxOutput));
    plan.request.mutable_speculation()->set_policy(kPolicies[dice_.Roll(0, kPolicies.size() - 1)]);
    plan.request.set_priority(dice_.Roll(1, 100));
    plan.client = std::to_string(dice_.Roll(0, 6));
    switch (dice_.Roll(0, 9)) {
      case 0:  // Cancels while the request waits or is prefilled.
        plan.cancel_after = 0;
        break;
      case 1:  // Disappears in the middle of the answer.
        plan.cancel_after = dice_.Roll(1, kMaxOutput / 2);
        break;
      case 2:
        plan.deadline = absl::Milliseconds(dice_.Roll(1, 2000));
        break;
      default:
        break;
    }
    return plan;
  }

  // Tokens that the request stores in the KV cache.
  static int DemandOf(const v1::GenerateRequest& request) {
    return request.tokens().ids_size() + static_cast<int>(request.stop().max_tokens());
  }

  // Starts the orchestrator over both engines, with a KV cache of `kv_tokens`.
  void Serve(int kv_tokens) {
    stages_ = std::make_unique<testing::InProcess>(
        testing::InProcessOptions{.folder = kModels,
                                  .weights = WeightFormat::kBF16,
                                  .max_sequences = 64,
                                  .kv_tokens = kv_tokens,
                                  .max_rows = 512});
    auto model = ServedModel::Load(kModels + "/target");
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    parser_ = std::make_unique<RequestParser>(model_.get(), *Policy::Parse("default"),
                                              ParserOptions{.node_cap = {.on_cpu = 64}});
    SchedulerOptions options;
    options.max_running = kRunning;
    options.link.profile_limit = absl::Milliseconds(500);
    options.link.dims = model_->config.dims;
    scheduler_ = std::make_unique<Scheduler>(options, &stages_->verifier(), &stages_->drafter(),
                                             [](bool) {});
    intake_ = std::make_unique<RequestIntake>(parser_.get(), scheduler_.get());
    service_ = std::make_unique<GenerationService>(CallOptions{model_.get(), scheduler_.get()},
                                                   intake_.get(), GenerationServiceOptions{});
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::GenerationService::NewStub(server_->InProcessChannel({}));
    ASSERT_TRUE(Await([](const SchedulerStats& stats) { return stats.ready; }));
  }
  // Waits until `condition` holds; false after 60 seconds.
  bool Await(bool (*condition)(const SchedulerStats&)) {
    for (int i = 0; i < 6000; ++i) {
      if (condition(scheduler_->stats())) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  // Carries out `plan`.
  Answer Run(const Plan& plan) {
    grpc::ClientContext context;
    context.AddMetadata("client-id", plan.client);
    if (plan.deadline < absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + plan.deadline));
    }
    Answer answer;
    const auto reader = stub_->Generate(&context, plan.request);
    v1::GenerateResponse event;
    while (reader->Read(&event)) {
      const auto& tokens = event.delta().token_ids();
      answer.tokens.insert(answer.tokens.end(), tokens.begin(), tokens.end());
      answer.accepted += event.finished().speculation().accepted_tokens();
      if (plan.cancel_after && answer.tokens.size() >= *plan.cancel_after) context.TryCancel();
    }
    answer.status = reader->Finish();
    return answer;
  }

  Dice dice_{18};
  std::vector<v1::GenerateRequest> requests_;  // One per text.
  std::vector<Plan> plans_;
  std::unique_ptr<testing::InProcess> stages_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<RequestParser> parser_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<RequestIntake> intake_;
  std::unique_ptr<GenerationService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

TEST_F(OverloadTest, EveryCompleteTextIsThatOfTheRequestAlone) {
  int64_t demand = 0;
  for (const Plan& plan : plans_) demand += DemandOf(plan.request);
  const auto kv_tokens = static_cast<int>(demand * kRunning / kRequests / kScarcity);
  for (const Plan& plan : plans_) ASSERT_LT(DemandOf(plan.request), kv_tokens);
  ASSERT_NO_FATAL_FAILURE(Serve(kv_tokens));
  const int capacity = stages_->verifier_engine().free_kv_tokens();

  std::vector<std::vector<TokenId>> texts;
  for (const v1::GenerateRequest& request : requests_) {
    const Answer answer = Run({.request = request});
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    texts.push_back(answer.tokens);
  }

  std::vector<Answer> answers(kRequests);
  std::atomic<int> next = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      for (int at = next++; at < kRequests; at = next++) answers[at] = Run(plans_[at]);
    });
  }
  for (std::thread& client : clients) client.join();

  int complete = 0;
  uint64_t accepted = 0;
  for (int i = 0; i < kRequests; ++i) {
    const auto& [status, tokens, nodes] = answers[i];
    accepted += nodes;
    const Plan& plan = plans_[i];
    const std::vector<TokenId>& text = texts[plan.text];
    SCOPED_TRACE(plan.request.ShortDebugString());
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        ++complete;
        EXPECT_EQ(tokens.size(), plan.request.stop().max_tokens());
        break;
      case grpc::StatusCode::CANCELLED:
        EXPECT_TRUE(plan.cancel_after.has_value()) << status.error_message();
        break;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        EXPECT_LT(plan.deadline, absl::InfiniteDuration()) << status.error_message();
        break;
      default:
        ADD_FAILURE() << status.error_code() << ": " << status.error_message();
    }
    ASSERT_LE(tokens.size(), text.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), text.begin()));
  }
  EXPECT_GT(complete, kRequests / 2);
  EXPECT_GT(accepted, 0u);

  EXPECT_TRUE(Await([](const SchedulerStats& stats) {
    return stats.running == 0 && stats.waiting == 0 && stats.parked == 0;
  }));
  std::cout << complete << " of " << kRequests << " requests complete, "
            << scheduler_->stats().preemptions << " preemptions, " << accepted
            << " accepted nodes\n";
  EXPECT_GT(scheduler_->stats().preemptions, 0);
  server_->Shutdown();
  scheduler_.reset();  // Ends the thread that uses the engines.
  EXPECT_EQ(stages_->verifier_engine().live_sequences(), 0);
  EXPECT_EQ(stages_->verifier_engine().free_kv_tokens(), capacity);
  EXPECT_EQ(stages_->drafter_engine().live_sequences(), 0);
}

}  // namespace
}  // namespace bastion
