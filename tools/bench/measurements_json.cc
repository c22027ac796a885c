#include "tools/bench/measurements_json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/policy/policy.h"
#include "tools/bench/same_texts.h"

namespace bastion {
namespace {

using nlohmann::json;

// A list with a value of each cycle.
template <typename Value>
json Column(const PromptMeasurement& request, const Value& value) {
  json column = json::array();
  for (const MeasuredCycle& cycle : request.cycles) column.push_back(std::invoke(value, cycle));
  return column;
}

json CyclesJson(const PromptMeasurement& request) {
  static constexpr std::pair<const char*, double StageSeconds::*> kStages[] = {
      {"draft", &StageSeconds::draft},      {"tree", &StageSeconds::tree},
      {"verify", &StageSeconds::verify},    {"verify_queue", &StageSeconds::verify_queue},
      {"commit", &StageSeconds::commit},    {"audit", &StageSeconds::audit},
      {"transfer", &StageSeconds::transfer}};
  json cycles = {{"committed", Column(request, &MeasuredCycle::committed_length)},
                 {"nodes", Column(request, &MeasuredCycle::nodes)},
                 {"rows", Column(request, &MeasuredCycle::rows)},
                 {"accepted", Column(request, &MeasuredCycle::accepted)},
                 {"expected_length", Column(request, &MeasuredCycle::expected_length)},
                 {"context", Column(request, &MeasuredCycle::context)},
                 {"reason", Column(request, &MeasuredCycle::reason)},
                 {"predicted_verify", Column(request, &MeasuredCycle::predicted_verify)}};
  for (const auto& [name, stage] : kStages) {
    cycles[name] = Column(
        request, [stage = stage](const MeasuredCycle& cycle) { return cycle.stages.*stage; });
  }
  return cycles;
}

json RequestJson(const PromptMeasurement& request) {
  json deltas = json::array();
  for (const Delta& delta : request.deltas) deltas.push_back({delta.at, delta.tokens});
  json cycles = CyclesJson(request);
  const auto keeps_tree = [](const MeasuredCycle& cycle) { return !cycle.offered.empty(); };
  if (std::any_of(request.cycles.begin(), request.cycles.end(), keeps_tree)) {
    cycles["offered"] = Column(request, &MeasuredCycle::offered);
  }
  return {{"id", request.id},
          {"output_token_ids", request.output},
          {"seconds", request.seconds},
          {"prefill_seconds", request.prefill_seconds},
          {"arrived", request.arrived},
          {"ended", request.ended},
          {"deltas", std::move(deltas)},
          {"cycles", std::move(cycles)}};
}

json BinsJson(const ReliabilityTable& table) {
  json bins = json::array();
  for (const ReliabilityTable::Bin& bin : table.bins()) {
    bins.push_back({bin.count, bin.accepted, bin.stated});
  }
  return bins;
}

json RunJson(const LoadRun& run) {
  json requests = json::array(), reliability = nullptr;
  for (const PromptMeasurement& request : run.requests) requests.push_back(RequestJson(request));
  if (run.reliability.before.count() > 0) {
    reliability = {{"before", BinsJson(run.reliability.before)},
                   {"after", BinsJson(run.reliability.after)}};
  }
  return {{"requests", std::move(requests)},
          {"rejected", run.rejected},
          {"reliability", std::move(reliability)}};
}

json LevelJson(const LevelResults& level) {
  json arms = json::array();
  for (const ArmResults& arm : level.arms) {
    json rounds = json::array();
    for (const LoadRun& run : arm.rounds) rounds.push_back(RunJson(run));
    arms.push_back({{"policy", arm.policy}, {"rounds", std::move(rounds)}});
  }
  json result = {{"arms", std::move(arms)}};
  if (level.level.closed()) {
    result["concurrency"] = level.level.concurrency;
  } else if (level.level.rate > 0) {
    result["rate"] = level.level.rate;
  } else {
    result["arrivals"] = level.level.arrivals;
  }
  return result;
}

json LevelsJson(const std::vector<LevelResults>& levels) {
  json all = json::array();
  for (const LevelResults& level : levels) all.push_back(LevelJson(level));
  return all;
}

json LimitJson(double seconds) { return std::isfinite(seconds) ? json(seconds) : json(nullptr); }

json SettingsJson(const BenchSettings& settings) {
  const SamplingParams& sampling = settings.sampling;
  return {{"temperature", sampling.temperature},
          {"seed", sampling.seed},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repetition_penalty", sampling.repetition_penalty},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty},
          {"max_new_tokens", settings.max_new_tokens},
          {"ignore_eos", settings.ignore_eos}};
}

json LatencyJson(const VerifyLatency& latency) {
  json points = json::array();
  for (const LatencyPoint& point : latency.points) {
    points.push_back({{"rows", point.rows},
                      {"context", point.context},
                      {"seconds", point.seconds},
                      {"roofline_seconds", point.roofline_seconds},
                      {"static_seconds", point.static_seconds}});
  }
  return {{"points", std::move(points)},
          {"slope", latency.slope},
          {"intercept", latency.intercept},
          {"roofline_rmse", latency.roofline_rmse},
          {"static_rmse", latency.static_rmse}};
}

json AccuracyJson(const DrafterAccuracy& found) {
  json blocks = json::array();
  for (const auto& block : found.accuracy.blocks) {
    json& positions = blocks.emplace_back(json::array());
    for (const auto& count : block) positions.push_back({count.tried, count.right});
  }
  return {{"drafter", found.drafter},
          {"blocks", std::move(blocks)},
          {"buckets", found.accuracy.buckets}};
}

}  // namespace

json ComparisonJson(const Comparison& comparison, const absl::Status& texts) {
  const TextDifferences found = FindDifferentTexts(comparison.levels);
  json with_prior = json::array();
  for (const ArmResults& arm : comparison.levels.front().arms) {
    const absl::StatusOr<Policy> policy = Policy::Parse(arm.policy);
    if (policy.ok() && policy->prior() != Policy::Prior::kNone) with_prior.push_back(arm.policy);
  }
  return {
      {"device", comparison.device},
      {"target", comparison.target},
      {"drafter", comparison.drafter},
      {"mode", comparison.mode},
      {"settings", SettingsJson(comparison.settings)},
      {"latency_targets",
       {{"gap", LimitJson(comparison.targets.gap)}, {"ttft", LimitJson(comparison.targets.ttft)}}},
      {"policies_with_prior", std::move(with_prior)},
      {"levels", LevelsJson(comparison.levels)},
      {"texts",
       {{"compared", found.outputs},
        {"different", found.different},
        {"problem", texts.ok() ? json(nullptr) : json(std::string(texts.message()))}}},
      {"latency_model", comparison.latency_model.has_value()
                            ? LatencyModelJson(*comparison.latency_model)
                            : json(nullptr)}};
}

json SuiteResultsJson(const SuiteResults& results) {
  json accuracies = json::array();
  for (const DrafterAccuracy& found : results.accuracies) {
    accuracies.push_back(AccuracyJson(found));
  }
  json runs = json::array();
  for (const SuiteRun& run : results.runs) {
    runs.push_back({{"temperature", run.temperature},
                    {"seed", run.seed},
                    {"prompt_tokens", run.prompt_tokens},
                    {"max_new_tokens", run.max_new_tokens},
                    {"peak_memory_bytes", run.peak_memory},
                    {"levels", LevelsJson(run.levels)}});
  }
  return {{"device", results.device},
          {"target", results.suite.models.target},
          {"drafter", results.suite.models.drafter},
          {"mode", results.mode},
          {"same_texts", results.texts.ok()},
          {"suite", SuiteJson(results.suite)},
          {"datasets", results.datasets},
          {"runs", std::move(runs)},
          {"left_out", results.left_out},
          {"accuracies", std::move(accuracies)},
          {"latency", LatencyJson(results.latency)}};
}

}  // namespace bastion
