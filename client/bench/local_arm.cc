#include <algorithm>

#include "client/bench/arm.h"
#include "common/base/status.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/speculation_memory.h"

namespace bastion {
namespace {

constexpr int kPrefillChunk = 4096;

MeasuredCycle ToMeasuredCycle(const CycleRecord& cycle) {
  MeasuredCycle measured;
  measured.committed_length = cycle.committed_length;
  measured.nodes = cycle.nodes;
  measured.rows = cycle.rows;
  measured.predicted_verify = absl::ToDoubleSeconds(cycle.predicted_verify);
  const StageTimes& times = cycle.stages;
  measured.stages = {.draft = absl::ToDoubleSeconds(times.draft),
                     .tree = absl::ToDoubleSeconds(times.tree),
                     .verify_queue = absl::ToDoubleSeconds(times.verify_queue),
                     .verify = absl::ToDoubleSeconds(times.verify),
                     .commit = absl::ToDoubleSeconds(times.commit),
                     .audit = absl::ToDoubleSeconds(times.audit),
                     .transfer = absl::ToDoubleSeconds(times.transfer)};
  return measured;
}

class LocalArm final : public Arm {
 public:
  LocalArm(Policy policy, const ArmStages& stages, CostModel costs, const TargetInfo& target,
           absl::flat_hash_set<TokenId> stop_tokens)
      : policy_(std::move(policy)),
        drafter_(stages.drafter),
        costs_(std::move(costs)),
        memory_({.vocabulary = target.dims.vocabulary, .table = stages.table}),
        cycle_(target, stages.drafter, stages.verifier, &costs_),
        stop_tokens_(std::move(stop_tokens)) {}

  absl::StatusOr<std::vector<PromptMeasurement>> Run(const std::vector<BenchPrompt>& prompts,
                                                     const BenchSettings& settings) override;

 private:
  // A prompt that is being decoded.
  struct Live {
    std::unique_ptr<DecodeSequence> sequence;
    PromptMeasurement result;
    absl::Duration began, ended;
  };

  absl::StatusOr<Live> Begin(const BenchPrompt& prompt, const BenchSettings& settings);
  absl::Status StepAll(std::vector<Live>& live);

  Policy policy_;
  Drafter* const drafter_;
  CostModel costs_;
  SpeculationMemory memory_;
  DecodeCycle cycle_;
  absl::flat_hash_set<TokenId> stop_tokens_;
};

absl::StatusOr<LocalArm::Live> LocalArm::Begin(const BenchPrompt& prompt,
                                               const BenchSettings& settings) {
  static uint64_t next_session = 1;
  DecodeRequest request;
  request.id = {next_session++, 0};
  request.prompt = prompt.tokens;
  request.sampling = settings.sampling;
  request.sampling.prompt_tokens = static_cast<int>(prompt.tokens.size());
  request.max_tokens = settings.max_new_tokens;
  request.stop_tokens = stop_tokens_;
  Live live;
  live.result.id = prompt.id;
  live.sequence = std::make_unique<DecodeSequence>(
      std::move(request),
      policy_.NewRequest(settings.sampling.temperature == 0, &costs_, &memory_));
  StopWatch watch;
  cycle_.Open(*live.sequence);
  while (!live.sequence->done() && cycle_.Prefill(*live.sequence, kPrefillChunk)) {
  }
  live.result.prefill_seconds = absl::ToDoubleSeconds(watch.Lap());
  if (!live.sequence->status().ok()) {
    return Annotate(live.sequence->status(), absl::StrCat("prompt ", prompt.id));
  }
  return live;
}

absl::Status LocalArm::StepAll(std::vector<Live>& live) {
  for (;;) {
    Batch batch;
    for (Live& entry : live) {
      if (!entry.sequence->done()) batch.push_back(entry.sequence.get());
    }
    if (batch.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(cycle_.Step(batch));
    const absl::Duration now = Clock::Real().Now();
    for (Live& entry : live) {
      RETURN_IF_ERROR(entry.sequence->status());
      if (entry.sequence->done() && entry.ended == absl::ZeroDuration()) entry.ended = now;
    }
  }
}

absl::StatusOr<std::vector<PromptMeasurement>> LocalArm::Run(
    const std::vector<BenchPrompt>& prompts, const BenchSettings& settings) {
  std::vector<Live> live;
  for (const BenchPrompt& prompt : prompts) {
    ASSIGN_OR_RETURN(live.emplace_back(), Begin(prompt, settings));
  }
  for (Live& entry : live) entry.began = Clock::Real().Now();
  RETURN_IF_ERROR(StepAll(live));
  std::vector<PromptMeasurement> results;
  for (Live& entry : live) {
    entry.result.seconds = absl::ToDoubleSeconds(entry.ended - entry.began);
    entry.result.output = entry.sequence->output();
    for (const CycleRecord& cycle : entry.sequence->cycles()) {
      entry.result.cycles.push_back(ToMeasuredCycle(cycle));
    }
    cycle_.Close(*entry.sequence, *drafter_);
    results.push_back(std::move(entry.result));
  }
  return results;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arm>> MakeLocalArm(const std::string& policy,
                                                  const ArmStages& stages,
                                                  const CalibrationTable& calibration,
                                                  const std::vector<TokenId>& stop_tokens) {
  ASSIGN_OR_RETURN(Policy parsed, Policy::Parse(policy));
  ASSIGN_OR_RETURN(const TargetInfo target, stages.verifier->Info());
  ASSIGN_OR_RETURN(CostModel costs, CostModel::Fit(target, calibration));
  return std::make_unique<LocalArm>(
      std::move(parsed), stages, std::move(costs), target,
      absl::flat_hash_set<TokenId>(stop_tokens.begin(), stop_tokens.end()));
}

}  // namespace bastion
