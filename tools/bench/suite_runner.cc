#include "tools/bench/suite_runner.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/later_turns.h"
#include "tools/bench/peak_memory.h"
#include "tools/bench/prompt_text.h"
#include "tools/bench/prompts.h"
#include "tools/bench/same_texts.h"

namespace bastion {
namespace {

// An arm that also measures the largest memory of the process while it runs.
class MemoryArm final : public Arm {
 public:
  // `peak` must outlive the arm.
  MemoryArm(std::unique_ptr<Arm> arm, int64_t* peak) : arm_(std::move(arm)), peak_(peak) {}

  absl::StatusOr<LoadRun> Run(const LoadPlan& plan, const BenchSettings& settings) override {
    ResetPeakMemory();
    absl::StatusOr<LoadRun> run = arm_->Run(plan, settings);
    *peak_ = std::max(*peak_, PeakMemory());
    return run;
  }

 private:
  const std::unique_ptr<Arm> arm_;
  int64_t* const peak_;
};

class SuiteRunner {
 public:
  // The arguments must outlive this object.
  SuiteRunner(const Suite& suite, const SuiteOptions& options, SuiteSessions& sessions)
      : suite_(suite), options_(options), sessions_(sessions), text_(suite.models.target) {}

  // Measures every combination of the grid.
  absl::StatusOr<std::vector<SuiteRun>> Run(const std::vector<BenchPrompt>& prompts) {
    std::vector<int> lengths = suite_.grid.prompt_tokens;
    if (lengths.empty()) lengths = {0};
    std::vector<SuiteRun> runs;
    for (const float temperature : suite_.grid.temperatures) {
      for (const uint64_t seed : suite_.grid.seeds) {
        for (const int new_tokens : suite_.grid.max_new_tokens) {
          const BenchSettings settings = Settings(temperature, seed, new_tokens);
          ASSIGN_OR_RETURN(const auto turns, WithTurns(prompts, settings));
          for (const int length : lengths) {
            const auto sized = length > 0 ? Resized(turns, length) : turns;
            for (const BenchPrompt& prompt : sized) datasets_[prompt.id] = prompt.dataset;
            SuiteRun run = {temperature, seed, length, new_tokens, {}, {}};
            RETURN_IF_ERROR(Measure(sized, settings, &run));
            runs.push_back(std::move(run));
          }
        }
      }
    }
    return runs;
  }

  [[nodiscard]] const DatasetOf& datasets() const { return datasets_; }
  // The first error of CheckSameTexts.
  [[nodiscard]] const absl::Status& texts() const { return texts_; }

 private:
  [[nodiscard]] BenchSettings Settings(float temperature, uint64_t seed, int new_tokens) const {
    BenchSettings settings;
    settings.sampling.temperature = temperature;
    settings.sampling.seed = seed;
    settings.max_new_tokens = new_tokens;
    settings.ignore_eos = options_.ignore_eos;
    settings.keeps_trees = true;
    return settings;
  }

  // The answers to earlier turns come from plain decoding.
  absl::StatusOr<std::vector<BenchPrompt>> WithTurns(const std::vector<BenchPrompt>& prompts,
                                                     const BenchSettings& settings) {
    if (!HasLaterTurns(prompts)) return prompts;
    ASSIGN_OR_RETURN(const std::unique_ptr<Arm> arm, sessions_.MakeArm("ar"));
    return WithLaterTurns(
        prompts, text_, [&](const BenchPrompt& prompt) { return Answer(prompt, settings, *arm); });
  }

  absl::Status Measure(const std::vector<BenchPrompt>& prompts, const BenchSettings& settings,
                       SuiteRun* run) {
    std::vector<LoadPlan> plans;
    for (const int concurrency : suite_.grid.concurrencies) {
      LoadOptions load = {.concurrency = {concurrency}};
      // A closed loop needs requests that end while others still run.
      const auto wanted = static_cast<size_t>(concurrency > 1 ? 2 * concurrency : 1);
      load.repeat = static_cast<int>((wanted + prompts.size() - 1) / prompts.size());
      ASSIGN_OR_RETURN(auto planned, PlanLoads(load, prompts, settings));
      plans.push_back(std::move(planned.front()));
    }
    RETURN_IF_ERROR(sessions_.Learn(plans, settings));
    const ComparisonOptions comparison = {suite_.policies, suite_.load.rounds, /*cold=*/false,
                                          suite_.load.warmup};
    const bool local = sessions_.own().stages() != nullptr;
    const auto make_arm = [&](const std::string& policy) -> absl::StatusOr<std::unique_ptr<Arm>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Arm> arm, sessions_.MakeArm(policy));
      if (!local) return arm;  // The memory is that of other processes.
      return std::make_unique<MemoryArm>(std::move(arm), &run->peak_memory[policy]);
    };
    ASSIGN_OR_RETURN(run->levels, CompareLoads(plans, comparison, settings, make_arm));
    texts_.Update(CheckSameTexts(run->levels));
    return absl::OkStatus();
  }

  const Suite& suite_;
  const SuiteOptions& options_;
  SuiteSessions& sessions_;
  PromptText text_;
  DatasetOf datasets_;
  absl::Status texts_;
};

// Makes a path of the suite absolute.
std::string Located(const std::string& path, const std::string& source_folder) {
  if (path.empty() || std::filesystem::path(path).is_absolute() || std::filesystem::exists(path)) {
    return path;
  }
  return (std::filesystem::path(source_folder) / path).string();
}

void Locate(const SuiteOptions& options, SuiteModels* models) {
  for (std::string* const path : {&models->target, &models->drafter, &models->prompts}) {
    *path = Located(*path, options.source_folder);
  }
  for (auto& [name, folder] : models->drafters) folder = Located(folder, options.source_folder);
}

// Whether a table of the suite shows the accuracy of drafters.
bool CountsAccuracy(const Suite& suite) {
  return std::any_of(suite.tables.begin(), suite.tables.end(), [](const std::string& table) {
    return table == "ranks" || table == "blocks";
  });
}

}  // namespace

std::vector<BenchPrompt> FirstOfEachDataset(std::vector<BenchPrompt> prompts, int count,
                                            const std::string& name) {
  std::map<std::string, int> kept;
  std::vector<BenchPrompt> first;
  for (BenchPrompt& prompt : prompts) {
    if (prompt.dataset.empty()) prompt.dataset = name;
    if (count > 0 && kept[prompt.dataset]++ >= count) continue;
    first.push_back(std::move(prompt));
  }
  return first;
}

absl::StatusOr<SuiteResults> RunSuite(Suite suite, const SuiteOptions& options) {
  RETURN_IF_ERROR(CheckPolicies(suite));
  Locate(options, &suite.models);
  std::vector<std::string> left_out = LeaveOutAbsentDrafters(&suite);
  for (const std::string& sentence : left_out) std::cerr << sentence << '\n';
  std::vector<BenchPrompt> prompts;
  if (!suite.policies.empty()) {
    const std::string& file = suite.models.prompts;
    ASSIGN_OR_RETURN(prompts, LoadPrompts(file, suite.models.target, options.template_args));
    prompts = FirstOfEachDataset(std::move(prompts), suite.load.prompts_per_dataset,
                                 std::filesystem::path(file).stem().string());
  }
  SessionOptions opened = {options.local, options.endpoint};
  opened.local.counts_accuracy = CountsAccuracy(suite);
  opened.local.memory.max_rows = suite.load.max_rows;
  opened.max_live =
      *std::max_element(suite.grid.concurrencies.begin(), suite.grid.concurrencies.end());
  ASSIGN_OR_RETURN(SuiteSessions sessions, SuiteSessions::Open(suite, opened));
  BenchSession& own = sessions.own();
  SuiteResults results;
  results.suite = suite;
  results.device = own.device();
  results.mode = own.mode();
  results.left_out = std::move(left_out);
  if (!suite.latency.rows.empty()) {
    if (own.stages() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("suite ", suite.name,
                       " times the target's forwards; it needs engines in this process: "
                       "remove --endpoint"));
    }
    ASSIGN_OR_RETURN(results.latency,
                     MeasureVerifyLatency(own.stages()->verifier(), suite.latency));
  }
  if (!suite.policies.empty()) {
    SuiteRunner runner(suite, options, sessions);
    ASSIGN_OR_RETURN(results.runs, runner.Run(prompts));
    results.datasets = runner.datasets();
    results.texts = runner.texts();
    results.accuracies = sessions.accuracies();
  }
  RETURN_IF_ERROR(sessions.Close());
  return results;
}

}  // namespace bastion
