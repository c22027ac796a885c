#include <thread>

#include "absl/strings/str_cat.h"
#include "client/bench/arm.h"
#include "client/cpp/generation_client.h"
#include "client/cpp/sampling.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace bastion {
namespace {

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

MeasuredCycle ToMeasuredCycle(const v1::CycleReport& cycle) {
  MeasuredCycle measured;
  measured.committed_length = static_cast<int>(cycle.committed_length());
  measured.nodes = static_cast<int>(cycle.nodes());
  measured.rows = static_cast<int>(cycle.rows());
  measured.predicted_verify = Seconds(cycle.predicted_verify());
  measured.stages = {.draft = Seconds(cycle.draft()),
                     .tree = Seconds(cycle.tree()),
                     .verify_queue = Seconds(cycle.verify_queue()),
                     .verify = Seconds(cycle.verify()),
                     .commit = Seconds(cycle.commit()),
                     .audit = Seconds(cycle.audit()),
                     .transfer = Seconds(cycle.transfer())};
  return measured;
}

class RemoteArm final : public Arm {
 public:
  RemoteArm(std::string policy, const std::string& endpoint)
      : policy_(std::move(policy)), client_(endpoint) {}

  absl::StatusOr<std::vector<PromptMeasurement>> Run(const std::vector<BenchPrompt>& prompts,
                                                     const BenchSettings& settings) override {
    std::vector<PromptMeasurement> results(prompts.size());
    std::vector<absl::Status> statuses(prompts.size());
    std::vector<std::thread> threads;
    threads.reserve(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = RunPrompt(prompts[i], settings, results[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < prompts.size(); ++i) {
      RETURN_IF_ERROR(Annotate(statuses[i], absl::StrCat(policy_, ", prompt ", prompts[i].id)));
    }
    return results;
  }

 private:
  absl::Status RunPrompt(const BenchPrompt& prompt, const BenchSettings& settings,
                         PromptMeasurement& result) {
    v1::GenerateRequest request;
    request.mutable_tokens()->mutable_ids()->Add(prompt.tokens.begin(), prompt.tokens.end());
    Encode(settings.sampling, *request.mutable_sampling());
    request.mutable_sampling()->set_seed(settings.sampling.seed);
    request.mutable_stop()->set_max_tokens(settings.max_new_tokens);
    request.mutable_output()->set_token_ids(true);
    request.mutable_output()->set_cycles(true);
    request.mutable_speculation()->set_policy(policy_);
    result.id = prompt.id;
    return client_.Generate(request, [&](const v1::GenerateResponse& event) {
      if (event.has_delta()) {
        const auto& ids = event.delta().token_ids();
        result.output.insert(result.output.end(), ids.begin(), ids.end());
        for (const v1::CycleReport& cycle : event.delta().cycles()) {
          result.cycles.push_back(ToMeasuredCycle(cycle));
        }
      } else if (event.has_finished()) {
        result.seconds = Seconds(event.finished().timings().decode());
        result.prefill_seconds = Seconds(event.finished().timings().prefill());
      }
      return true;
    });
  }

  std::string policy_;
  GenerationClient client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Arm>> MakeRemoteArm(const std::string& policy,
                                                   const std::string& endpoint) {
  return std::make_unique<RemoteArm>(policy, endpoint);
}

absl::StatusOr<std::string> RemoteDevice(const std::string& endpoint) {
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info,
                   GenerationClient(endpoint).GetServerInfo());
  return info.device();
}

}  // namespace bastion
