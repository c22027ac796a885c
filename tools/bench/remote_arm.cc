#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "bastion/durations.h"
#include "bastion/generation_client.h"
#include "client/flags/sampling.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "tools/bench/arm.h"

namespace bastion {
namespace {

// The number of nodes at each depth, from 1.
std::vector<int> NodesByDepth(const v1::VerifiedTree& tree) {
  std::vector<int> nodes;
  std::vector<size_t> depths = {0};
  for (const v1::VerifiedTree::Node& node : tree.nodes()) {
    depths.push_back(node.parent() < depths.size() ? depths[node.parent()] + 1 : 1);
    if (nodes.size() < depths.back()) nodes.resize(depths.back());
    ++nodes[depths.back() - 1];
  }
  return nodes;
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
  measured.accepted = static_cast<int>(cycle.accepted_nodes());
  measured.context = static_cast<int>(cycle.context());
  measured.expected_length = cycle.expected_length();
  measured.reason = cycle.budget_reason();
  if (cycle.has_verified_tree()) measured.offered = NodesByDepth(cycle.verified_tree());
  return measured;
}

// A salt that no other request has.
std::string NewSalt() {
  absl::BitGen bits;
  return absl::StrCat(absl::Hex(absl::Uniform<uint64_t>(bits)));
}

// One call. Its thread writes the result; the arm reads it after it has joined the thread.
struct Call {
  PromptMeasurement result;
  absl::Status status;
  std::thread thread;
};

// The calls that ended. Thread-safe.
class EndedCalls {
 public:
  void Add(Call* call) {
    const absl::MutexLock lock(&mutex_);
    ended_.push_back(call);
  }
  // Waits for the end of a call, at most `timeout`. Returns the calls that ended since the last
  // Take.
  std::vector<Call*> Take(absl::Duration timeout) {
    const absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](std::vector<Call*>* ended) { return !ended->empty(); }, &ended_),
        timeout);
    return std::exchange(ended_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<Call*> ended_ ABSL_GUARDED_BY(mutex_);
};

class RemoteArm final : public Arm {
 public:
  RemoteArm(std::string policy, const std::string& endpoint)
      : policy_(std::move(policy)), client_(endpoint) {}

  absl::StatusOr<LoadRun> Run(const LoadPlan& plan, const BenchSettings& settings) override;

 private:
  // Runs one request and records its deltas, in seconds since `began`.
  absl::Status RunRequest(const PlannedRequest& planned, const BenchSettings& settings,
                          absl::Duration began, PromptMeasurement* result);

  std::string policy_;
  GenerationClient client_;
};

absl::StatusOr<LoadRun> RemoteArm::Run(const LoadPlan& plan, const BenchSettings& settings) {
  LoadGenerator generator(plan);
  EndedCalls ended;
  std::deque<Call> calls;  // The threads keep pointers to the elements.
  const Clock& clock = Clock::Real();
  const absl::Duration began = clock.Now();
  for (;;) {
    const absl::Duration now = clock.Now() - began;
    while (const std::optional<PlannedRequest> planned = generator.Next(now)) {
      Call& call = calls.emplace_back();
      call.thread = std::thread([this, planned, &settings, &ended, &call, &clock, began] {
        call.status = RunRequest(*planned, settings, began, &call.result);
        call.result.ended = absl::ToDoubleSeconds(clock.Now() - began);
        ended.Add(&call);
      });
    }
    if (generator.Finished(now)) break;
    for (Call* const call : ended.Take(generator.NextArrival() - now)) {
      call->thread.join();
      generator.RequestEnded();
    }
  }
  LoadRun run;
  absl::Status failed;
  for (Call& call : calls) {
    if (call.status.ok()) {
      run.requests.push_back(std::move(call.result));
    } else if (absl::IsResourceExhausted(call.status) && !plan.level.closed()) {
      ++run.rejected;
    } else {
      failed.Update(Annotate(call.status, absl::StrCat(policy_, ", prompt ", call.result.id)));
    }
  }
  if (!failed.ok()) return failed;
  return run;
}

absl::Status RemoteArm::RunRequest(const PlannedRequest& planned, const BenchSettings& settings,
                                   absl::Duration began, PromptMeasurement* result) {
  const std::vector<TokenId>& prompt = planned.prompt->tokens;
  v1::GenerateRequest request;
  request.mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.end());
  Encode(settings.sampling, *request.mutable_sampling());
  request.mutable_sampling()->set_seed(settings.sampling.seed);
  request.mutable_stop()->set_max_tokens(planned.max_new_tokens);
  request.mutable_stop()->set_ignore_eos(settings.ignore_eos);
  request.mutable_output()->set_token_ids(true);
  request.mutable_output()->set_cycles(true);
  request.mutable_output()->set_trees(settings.keeps_trees);
  request.mutable_speculation()->set_policy(policy_);
  if (!settings.reuse_prefixes) request.set_cache_salt(NewSalt());
  result->id = planned.prompt->id;
  result->max_new_tokens = planned.max_new_tokens;
  result->arrived = absl::ToDoubleSeconds(planned.arrival);
  const auto on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_delta()) {
      const auto& ids = event.delta().token_ids();
      result->output.insert(result->output.end(), ids.begin(), ids.end());
      if (!ids.empty()) {
        result->deltas.push_back({absl::ToDoubleSeconds(Clock::Real().Now() - began), ids.size()});
      }
      for (const v1::CycleReport& cycle : event.delta().cycles()) {
        result->cycles.push_back(ToMeasuredCycle(cycle));
      }
    } else if (event.has_finished()) {
      result->seconds = Seconds(event.finished().timings().decode());
      result->prefill_seconds = Seconds(event.finished().timings().prefill());
    }
    return true;
  };
  // A retry would make a refused request look slow.
  return client_.Generate(request, on_event, {.retry = {.max_attempts = 1}});
}

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
