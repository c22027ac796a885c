#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "orchestrator/cycle/batch_planner.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "tools/bench/arm.h"
#include "tools/bench/step_trace.h"

namespace bastion {
namespace {

// Prompt tokens per forward, all requests together, as in the services.
constexpr int kPrefillRows = 256;

// The number of nodes at each depth, from 1.
std::vector<int> NodesByDepth(const DraftTree& tree) {
  std::vector<int> nodes;
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    const auto depth = static_cast<size_t>(tree.depth(node));
    if (nodes.size() < depth) nodes.resize(depth);
    ++nodes[depth - 1];
  }
  return nodes;
}

MeasuredCycle ToMeasuredCycle(const CycleRecord& cycle) {
  MeasuredCycle measured;
  measured.committed_length = cycle.committed_length;
  measured.nodes = cycle.nodes;
  measured.rows = cycle.rows;
  measured.predicted_verify = absl::ToDoubleSeconds(cycle.predicted_verify);
  measured.stages = ToStageSeconds(cycle.stages);
  measured.accepted = cycle.accepted;
  measured.context = cycle.context;
  measured.expected_length = cycle.expected_length;
  measured.reason = BudgetReasonName(cycle.reason);
  if (cycle.tree != nullptr) measured.offered = NodesByDepth(cycle.tree->tree);
  return measured;
}

// A number for each arm of this process.
int NextModel() {
  static int last = 0;
  return ++last;
}

class LocalArm final : public Arm {
 public:
  LocalArm(Policy policy, const ArmStages& stages, CostModel costs, const TargetInfo& target,
           absl::flat_hash_set<TokenId> stop_tokens)
      : policy_(std::move(policy)),
        stages_(stages),
        max_rows_(target.max_rows),
        model_(NextModel()),
        costs_(std::move(costs)),
        memory_({.vocabulary = target.dims.vocabulary, .table = stages.table}),
        cycle_(target, stages.drafter, stages.verifier, &costs_, stages.clock),
        stop_tokens_(std::move(stop_tokens)) {
    if (stages_.acceptance == nullptr) return;
    const absl::StatusOr<DrafterInfo> drafter = stages_.drafter->Info();
    const AcceptanceFile::Models models = {target.model, drafter.ok() ? drafter->model : ""};
    stages_.acceptance->before.Restore(models, &memory_);
    stages_.acceptance->after.Restore(models, /*memory=*/nullptr);
  }
  ~LocalArm() override {
    if (stages_.acceptance != nullptr) stages_.acceptance->after.Collect(memory_);
  }
  LocalArm(const LocalArm&) = delete;
  LocalArm& operator=(const LocalArm&) = delete;

  absl::StatusOr<LoadRun> Run(const LoadPlan& plan, const BenchSettings& settings) override;

 private:
  // A request that is being prefilled or decoded.
  struct Live {
    std::unique_ptr<DecodeSequence> sequence;
    size_t index;  // In LoadRun::requests.
    double started = 0;
    std::optional<double> prefilled;  // Seconds since the load began.
    BatchHistory turns = {};
    bool suspended = false;  // Preempted: it has no pages.
  };

  [[nodiscard]] double Now() const { return absl::ToDoubleSeconds(stages_.clock->Now() - began_); }
  [[nodiscard]] Live Begin(const PlannedRequest& request, const BenchSettings& settings,
                           LoadRun* run);
  // If a request lacked memory, suspends the request that began last, or fails it if it is alone.
  void Preempt();
  // Opens the suspended requests again.
  void Resume();
  // Runs one cycle of all live requests.
  absl::Status Step(LoadRun* run);
  void Record(CycleTrace trace);
  // Measures the requests that ended, and removes them.
  absl::Status RemoveEnded(LoadGenerator* generator, LoadRun* run);

  Policy policy_;
  const ArmStages stages_;
  const int max_rows_;
  const int model_;  // CycleTrace::model
  CostModel costs_;
  SharedLearning memory_;
  Reliability reliability_;  // This run.
  DecodeCycle cycle_;
  absl::flat_hash_set<TokenId> stop_tokens_;

  // This run.
  std::string level_;
  absl::Duration began_;
  std::vector<Live> live_;
};

LocalArm::Live LocalArm::Begin(const PlannedRequest& planned, const BenchSettings& settings,
                               LoadRun* run) {
  static uint64_t next_session = 1;
  DecodeRequest request;
  request.id = {next_session++, 0};
  request.prompt = planned.prompt->tokens;
  request.sampling = settings.sampling;
  request.sampling.prompt_tokens = static_cast<int>(request.prompt.size());
  request.max_tokens = planned.max_new_tokens;
  if (settings.keeps_trees) request.kept_trees = KeptTrees::kAll;
  if (!settings.ignore_eos) request.stop_tokens = stop_tokens_;
  PromptMeasurement measured;
  measured.id = planned.prompt->id;
  measured.max_new_tokens = planned.max_new_tokens;
  measured.arrived = absl::ToDoubleSeconds(planned.arrival);
  run->requests.push_back(std::move(measured));
  Live live;
  live.index = run->requests.size() - 1;
  live.started = Now();
  live.sequence = std::make_unique<DecodeSequence>(
      std::move(request),
      policy_.NewRequest(settings.sampling.temperature == 0, &costs_, &memory_));
  cycle_.Open(*live.sequence);
  return live;
}

absl::Status LocalArm::Step(LoadRun* run) {
  Batch batch;
  std::vector<std::pair<const Live*, size_t>> stepped;  // With the tokens before the cycle.
  std::vector<BatchCandidate> decoding, prefilling;
  for (Live& entry : live_) {
    if (entry.suspended) continue;
    const BatchCandidate candidate = {entry.sequence.get(), &entry.turns};
    if (entry.sequence->prompt_left() > 0) prefilling.push_back(candidate);
    if (entry.sequence->done() || entry.sequence->prompt_left() > 0) continue;
    if (!entry.prefilled.has_value()) entry.prefilled = Now();
    decoding.push_back(candidate);
    batch.push_back(entry.sequence.get());
    stepped.emplace_back(&entry, entry.sequence->output().size());
  }
  // Nothing has a latency target, so all that can decode do.
  std::vector<PromptChunk> prompts;
  const BatchPlan plan = PlanBatch(decoding, prefilling, {max_rows_, kPrefillRows}, costs_);
  prompts.reserve(plan.prompts.size());
  for (const auto& [i, rows] : plan.prompts) prompts.push_back({prefilling[i].sequence, rows});
  if (batch.empty() && prompts.empty()) return absl::OkStatus();
  std::optional<StepTrace> trace;
  // A CycleTrace has no prompts, so forwards with prompts are not recorded.
  if (stages_.recorder != nullptr && prompts.empty()) trace.emplace(batch, costs_, max_rows_);
  RETURN_IF_ERROR(Annotate(cycle_.Step(batch, prompts, plan.waiting), policy_.text()));
  Preempt();
  const double now = Now();
  if (trace.has_value()) Record(trace->Finish(batch));
  for (const auto& [entry, before] : stepped) {
    const int tokens = static_cast<int>(entry->sequence->output().size() - before);
    if (tokens > 0) run->requests[entry->index].deltas.push_back({now, tokens});
  }
  return absl::OkStatus();
}

void LocalArm::Preempt() {
  const auto starved = [](const Live& entry) { return entry.sequence->starved(); };
  const auto runs = [](const Live& entry) { return !entry.suspended && !entry.sequence->done(); };
  if (std::none_of(live_.begin(), live_.end(), starved)) return;
  const auto victim = std::find_if(live_.rbegin(), live_.rend(), runs);
  if (std::count_if(live_.begin(), live_.end(), runs) == 1) {
    victim->sequence->Fail(victim->sequence->starvation());
    return;
  }
  cycle_.Close(*victim->sequence, *stages_.drafter);
  victim->sequence->Preempt();
  victim->suspended = true;
}

void LocalArm::Resume() {
  for (Live& entry : live_) {
    if (std::exchange(entry.suspended, false)) cycle_.Open(*entry.sequence);
  }
}

void LocalArm::Record(CycleTrace trace) {
  trace.model = model_;
  trace.policy = policy_.text();
  trace.level = level_;
  stages_.recorder->Write(trace);
}

absl::Status LocalArm::RemoveEnded(LoadGenerator* generator, LoadRun* run) {
  const double now = Now();
  for (Live& entry : live_) {
    if (!entry.sequence->done()) continue;
    PromptMeasurement& measured = run->requests[entry.index];
    RETURN_IF_ERROR(
        Annotate(entry.sequence->status(), absl::StrCat(policy_.text(), ", prompt ", measured.id)));
    const double prefilled = entry.prefilled.value_or(now);
    measured.prefill_seconds = prefilled - entry.started;
    measured.ended = now;
    measured.seconds = now - prefilled;
    measured.output = entry.sequence->output();
    for (const CycleRecord& cycle : entry.sequence->cycles()) {
      measured.cycles.push_back(ToMeasuredCycle(cycle));
    }
    cycle_.Close(*entry.sequence, *stages_.drafter);
    generator->RequestEnded();
  }
  const auto ended = [](const Live& entry) { return entry.sequence->done(); };
  if (std::erase_if(live_, ended) > 0) Resume();
  return absl::OkStatus();
}

absl::StatusOr<LoadRun> LocalArm::Run(const LoadPlan& plan, const BenchSettings& settings) {
  LoadGenerator generator(plan);
  LoadRun run;
  level_ = plan.level.ToString();
  reliability_ = {};
  memory_.set_reliability(settings.reliability ? &reliability_ : nullptr);
  began_ = stages_.clock->Now();
  for (;;) {
    const absl::Duration now = stages_.clock->Now() - began_;
    while (const std::optional<PlannedRequest> request = generator.Next(now)) {
      live_.push_back(Begin(*request, settings, &run));
    }
    if (generator.Finished(now)) break;
    if (live_.empty()) stages_.wait(generator.NextArrival() - now);
    RETURN_IF_ERROR(Step(&run));
    RETURN_IF_ERROR(RemoveEnded(&generator, &run));
  }
  run.reliability = reliability_;
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arm>> MakeLocalArm(const std::string& policy,
                                                  const ArmStages& stages,
                                                  const LatencyProfile& profile,
                                                  const std::vector<TokenId>& stop_tokens) {
  ASSIGN_OR_RETURN(Policy parsed, Policy::Parse(policy));
  ASSIGN_OR_RETURN(const TargetInfo target, stages.verifier->Info());
  ASSIGN_OR_RETURN(CostModel costs, CostModel::Fit(target, profile));
  return std::make_unique<LocalArm>(
      std::move(parsed), stages, std::move(costs), target,
      absl::flat_hash_set<TokenId>(stop_tokens.begin(), stop_tokens.end()));
}

}  // namespace bastion
