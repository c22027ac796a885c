#include "tools/bench/suite_figures.h"

#include <algorithm>
#include <set>

#include "tools/bench/correlation.h"

namespace bastion {
namespace {

constexpr size_t kSampleSize = 2000;

using Requests = std::vector<const PromptMeasurement*>;

// All runs of one temperature and one prompt length at one concurrency.
struct CellRuns {
  SuiteCell cell;
  std::vector<const SuiteRun*> runs;
  size_t level = 0;  // Index of the concurrency.
};

std::vector<CellRuns> GroupRuns(const std::vector<SuiteRun>& runs) {
  std::vector<CellRuns> groups;
  for (const SuiteRun& run : runs) {
    for (size_t level = 0; level < run.levels.size(); ++level) {
      const SuiteCell cell = {run.temperature, run.levels[level].level.concurrency,
                              run.prompt_tokens, ""};
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const CellRuns& other) { return other.cell == cell; });
      if (group == groups.end()) group = groups.insert(groups.end(), {cell, {}, level});
      group->runs.push_back(&run);
    }
  }
  return groups;
}

// All rounds of a policy.
std::vector<LoadRun> RoundsOf(const CellRuns& group, size_t arm) {
  std::vector<LoadRun> rounds;
  for (const SuiteRun* const run : group.runs) {
    const ArmResults& results = run->levels[group.level].arms[arm];
    rounds.insert(rounds.end(), results.rounds.begin(), results.rounds.end());
  }
  return rounds;
}

Requests RequestsOf(const std::vector<LoadRun>& rounds, const DatasetOf& datasets,
                    const std::string& dataset) {
  Requests requests;
  for (const LoadRun& round : rounds) {
    for (const PromptMeasurement& request : round.requests) {
      if (dataset.empty() || datasets.at(request.id) == dataset) requests.push_back(&request);
    }
  }
  return requests;
}

// The work on each prompt of two arms.
std::vector<PairedWork> Pair(const Requests& requests, const Requests& base) {
  std::map<std::string, PairedWork> prompts;
  for (const PromptMeasurement* const request : requests) {
    PairedWork& prompt = prompts[request->id];
    prompt.tokens += static_cast<double>(request->output.size());
    prompt.seconds += request->seconds;
  }
  for (const PromptMeasurement* const request : base) {
    PairedWork& prompt = prompts[request->id];
    prompt.base_tokens += static_cast<double>(request->output.size());
    prompt.base_seconds += request->seconds;
  }
  std::vector<PairedWork> pairs;
  pairs.reserve(prompts.size());
  for (const auto& [id, prompt] : prompts) pairs.push_back(prompt);
  return pairs;
}

void AddStages(const StageSeconds& stages, double factor, StageSeconds* sum) {
  sum->draft += factor * stages.draft;
  sum->tree += factor * stages.tree;
  sum->verify_queue += factor * stages.verify_queue;
  sum->verify += factor * stages.verify;
  sum->commit += factor * stages.commit;
  sum->audit += factor * stages.audit;
  sum->transfer += factor * stages.transfer;
}

SuiteTimes TimesOf(const Requests& requests) {
  SuiteTimes times;
  StageSeconds stages;
  double cycles = 0, started = 0, continued = 0;
  for (const PromptMeasurement* const request : requests) {
    for (const MeasuredCycle& cycle : request->cycles) AddStages(cycle.stages, 1, &stages);
    cycles += static_cast<double>(request->cycles.size());
    if (request->deltas.empty()) continue;
    const Delta &first = request->deltas.front(), &last = request->deltas.back();
    times.ttft += first.at - request->arrived;
    ++started;
    const auto later = static_cast<double>(request->output.size()) - first.tokens;
    if (later <= 0) continue;
    times.tpot += (last.at - first.at) / later;
    ++continued;
  }
  times.ttft /= std::max(1.0, started);
  times.tpot /= std::max(1.0, continued);
  AddStages(stages, 1 / std::max(1.0, cycles), &times.cycle);
  return times;
}

void CountDepths(const MeasuredCycle& cycle, std::vector<DepthCount>* depths) {
  const std::vector<int>& offered = cycle.offered;
  if (depths->size() < offered.size()) depths->resize(offered.size());
  for (size_t depth = 0; depth < offered.size(); ++depth) {
    DepthCount& count = (*depths)[depth];
    ++count.cycles;
    count.offered += offered[depth];
    if (static_cast<size_t>(cycle.accepted) > depth) ++count.accepted;
  }
}

LengthCorrelation CorrelationOf(const std::vector<std::pair<double, double>>& pairs) {
  LengthCorrelation correlation = {
      Pearson(pairs), Spearman(pairs), static_cast<int64_t>(pairs.size()), {}};
  const size_t step = std::max<size_t>(1, (pairs.size() + kSampleSize - 1) / kSampleSize);
  for (size_t i = 0; i < pairs.size(); i += step) {
    correlation.sample.emplace_back(pairs[i].first, static_cast<int>(pairs[i].second));
  }
  return correlation;
}

// The figures that count cycles.
void CountCycles(const Requests& requests, ArmFigures* figures) {
  double cycles = 0, committed = 0, nodes = 0, accepted = 0;
  std::vector<std::pair<double, double>> lengths;
  for (const PromptMeasurement* const request : requests) {
    for (const MeasuredCycle& cycle : request->cycles) {
      ++cycles;
      committed += cycle.committed_length;
      nodes += cycle.nodes;
      accepted += cycle.accepted;
      ++figures->lengths[cycle.committed_length];
      CountDepths(cycle, &figures->depths);
      if (cycle.nodes == 0) continue;
      lengths.emplace_back(cycle.expected_length - 1, cycle.accepted);
    }
  }
  if (cycles > 0) {
    figures->tau = committed / cycles;
    figures->nodes = nodes / cycles;
  }
  if (nodes > 0) figures->acceptance = accepted / nodes;
  figures->expected_length = CorrelationOf(lengths);
}

double StreamRate(const Requests& requests) {
  double tokens = 0, seconds = 0;
  for (const PromptMeasurement* const request : requests) {
    tokens += static_cast<double>(request->output.size());
    seconds += request->seconds;
  }
  return seconds > 0 ? tokens / seconds : 0;
}

// The figures of all policies of one cell.
class CellFigures {
 public:
  CellFigures(const CellRuns& group, const DatasetOf& datasets)
      : group_(group), datasets_(datasets) {
    const std::vector<ArmResults>& arms = group.runs.front()->levels[group.level].arms;
    for (size_t arm = 0; arm < arms.size(); ++arm) {
      policies_.push_back(arms[arm].policy);
      rounds_.push_back(RoundsOf(group, arm));
      const LoadLevel level = {.concurrency = group.cell.concurrency};
      throughputs_.push_back(ComputeLoadFigures(rounds_.back(), level, {}).tokens_per_second);
      if (policies_.back() == "ar") base_ = arm;
    }
  }

  void Append(const std::string& dataset, std::vector<ArmFigures>* all) const {
    for (size_t arm = 0; arm < policies_.size(); ++arm) all->push_back(Of(arm, dataset));
  }

 private:
  [[nodiscard]] ArmFigures Of(size_t arm, const std::string& dataset) const {
    const Requests requests = RequestsOf(rounds_[arm], datasets_, dataset);
    ArmFigures figures;
    figures.cell = group_.cell;
    figures.cell.dataset = dataset;
    figures.policy = policies_[arm];
    figures.requests = static_cast<int>(requests.size());
    figures.stream_tokens_per_second = StreamRate(requests);
    if (dataset.empty()) figures.system_tokens_per_second = throughputs_[arm];
    if (base_.has_value()) SetSpeedup(arm, requests, &figures);
    figures.times = TimesOf(requests);
    for (const SuiteRun* const run : group_.runs) {
      const auto peak = run->peak_memory.find(figures.policy);
      if (peak == run->peak_memory.end()) continue;
      figures.peak_memory = std::max(figures.peak_memory, peak->second);
    }
    CountCycles(requests, &figures);
    return figures;
  }

  void SetSpeedup(size_t arm, const Requests& requests, ArmFigures* figures) const {
    if (group_.cell.concurrency > 1) {
      const double base = throughputs_[*base_];
      figures->speedup = base > 0 ? throughputs_[arm] / base : 0;
      return;
    }
    const std::vector<PairedWork> pairs =
        Pair(requests, RequestsOf(rounds_[*base_], datasets_, figures->cell.dataset));
    figures->speedup = RateRatio(pairs);
    if (arm != *base_) figures->spread = BootstrapRatio(pairs);
  }

  const CellRuns& group_;
  const DatasetOf& datasets_;
  std::vector<std::string> policies_;
  std::vector<std::vector<LoadRun>> rounds_;  // By policy.
  std::vector<double> throughputs_;           // By policy.
  std::optional<size_t> base_;                // Index of `ar`.
};

}  // namespace

std::vector<ArmFigures> ComputeSuiteFigures(const std::vector<SuiteRun>& runs,
                                            const DatasetOf& datasets) {
  std::set<std::string> names;
  for (const auto& [id, dataset] : datasets) names.insert(dataset);
  std::vector<ArmFigures> all;
  for (const CellRuns& group : GroupRuns(runs)) {
    const CellFigures cell(group, datasets);
    cell.Append("", &all);
    if (group.cell.concurrency > 1 || names.size() < 2) continue;
    for (const std::string& name : names) cell.Append(name, &all);
  }
  return all;
}

}  // namespace bastion
