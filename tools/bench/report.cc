#include "tools/bench/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "orchestrator/policy/policy.h"
#include "tools/bench/load_report.h"

namespace bastion {
namespace {

using nlohmann::json;

json StagesJson(const StageSeconds& stages) {
  return {{"draft", stages.draft},
          {"tree", stages.tree},
          {"verify_queue", stages.verify_queue},
          {"verify", stages.verify},
          {"commit", stages.commit},
          {"audit", stages.audit},
          {"transfer", stages.transfer}};
}

// The request's share of its cycle, by rows: 1 if it was alone.
double ShareOf(const MeasuredCycle& cycle) {
  return cycle.rows > 0 ? static_cast<double>(cycle.nodes + 1) / cycle.rows : 1;
}

// Adds the request's share of the cycle's times.
void AddShare(const MeasuredCycle& cycle, StageSeconds& sum) {
  const double share = ShareOf(cycle);
  const StageSeconds& stages = cycle.stages;
  sum.draft += share * stages.draft;
  sum.tree += share * stages.tree;
  sum.verify_queue += share * stages.verify_queue;
  sum.verify += share * stages.verify;
  sum.commit += share * stages.commit;
  sum.audit += share * stages.audit;
  sum.transfer += share * stages.transfer;
}

json PromptJson(const PromptMeasurement& prompt) {
  json lengths = json::array(), nodes = json::array(), accepted = json::array();
  json expected = json::array(), contexts = json::array(), reasons = json::array();
  StageSeconds stages;
  for (const MeasuredCycle& cycle : prompt.cycles) {
    lengths.push_back(cycle.committed_length);
    nodes.push_back(cycle.nodes);
    accepted.push_back(cycle.accepted);
    expected.push_back(cycle.expected_length);
    contexts.push_back(cycle.context);
    reasons.push_back(cycle.reason);
    AddShare(cycle, stages);
  }
  return {{"id", prompt.id},
          {"output_token_ids", prompt.output},
          {"committed_lengths", lengths},
          {"nodes_per_cycle", nodes},
          {"accepted_nodes", accepted},
          {"expected_lengths", expected},
          {"contexts", contexts},
          {"budget_reasons", reasons},
          {"seconds", prompt.seconds},
          {"prefill_seconds", prompt.prefill_seconds},
          {"stage_seconds", StagesJson(stages)}};
}

// One entry [rows, predicted seconds, measured seconds] per cycle.
json VerifyTrace(const PolicyResults& policy) {
  json trace = json::array();
  for (const PromptMeasurement& prompt : policy.prompts) {
    for (const MeasuredCycle& cycle : prompt.cycles) {
      trace.push_back({cycle.rows, cycle.predicted_verify, cycle.stages.verify});
    }
  }
  return trace;
}

json PolicyJson(const BenchReport& report, const PolicyResults& policy) {
  json prompts = json::array();
  for (const PromptMeasurement& prompt : policy.prompts) prompts.push_back(PromptJson(prompt));
  return {{"policy", policy.policy},
          {"tokens_per_second", policy.tokens_per_second()},
          {"tau", policy.tau()},
          {"speedup_vs_ar", report.SpeedupVsAr(policy)},
          {"verify_prediction_error_median", policy.verify_prediction_error_median()},
          {"verify_trace", VerifyTrace(policy)},
          {"expected_length_fit", LengthFitJson(FitLengths(policy.prompts))},
          {"prompts", prompts}};
}

// The first level, whose requests are in `policies`. null in an open loop.
json ConcurrencyJson(const BenchReport& report) {
  if (report.levels.empty()) return 1;
  const LoadLevel& level = report.levels[0].level;
  return level.closed() ? json(level.concurrency) : json(nullptr);
}

// The outputs seen so far.
class TextComparison {
 public:
  // Compares the outputs of `arm` with the first ones. `counted` is false for outputs that are
  // added again under another name.
  void Add(const std::string& arm, const std::vector<PromptMeasurement>& prompts, bool counted) {
    for (const PromptMeasurement& prompt : prompts) {
      const auto [first, added] =
          first_.try_emplace({prompt.id, prompt.max_new_tokens}, Output{arm, &prompt.output});
      const std::vector<TokenId>& expected = *first->second.tokens;
      const std::vector<TokenId>& actual = prompt.output;
      found_.outputs += counted ? 1 : 0;
      if (added || actual == expected) continue;
      found_.different += counted ? 1 : 0;
      if (!found_.first.ok()) continue;
      const auto [at, other] =
          std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
      found_.first = absl::DataLossError(
          absl::StrCat("prompt ", prompt.id, ": ", arm, " and ", first->second.arm,
                       " first differ at output token ", at - actual.begin(), " (", actual.size(),
                       " and ", expected.size(), " tokens)"));
    }
  }
  [[nodiscard]] const TextDifferences& found() const { return found_; }

 private:
  struct Output {
    std::string arm;
    const std::vector<TokenId>* tokens;
  };
  std::map<std::pair<std::string, int>, Output> first_;  // By prompt and limit.
  TextDifferences found_;
};

}  // namespace

absl::Status CreateReportFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--report: cannot create the folder ", folder, " (",
                                             error.message(), "); choose another one"));
}

absl::Status WriteReportFile(const std::string& folder, const std::string& name,
                             const std::string& content) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::ofstream file(path);
  file << content;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path.string(),
                   "; check that its folder exists, is writable and has free space"));
}

double PolicyResults::tokens_per_second() const {
  double tokens = 0, seconds = 0;
  for (const PromptMeasurement& prompt : prompts) {
    tokens += static_cast<double>(prompt.output.size());
    seconds += prompt.seconds;
  }
  return seconds > 0 ? tokens / seconds : 0;
}

double PolicyResults::tau() const {
  double tokens = 0, cycles = 0;
  for (const PromptMeasurement& prompt : prompts) {
    cycles += static_cast<double>(prompt.cycles.size());
    for (const MeasuredCycle& cycle : prompt.cycles) tokens += cycle.committed_length;
  }
  return cycles > 0 ? tokens / cycles : 0;
}

double PolicyResults::mean_nodes() const {
  double nodes = 0, cycles = 0;
  for (const PromptMeasurement& prompt : prompts) {
    cycles += static_cast<double>(prompt.cycles.size());
    for (const MeasuredCycle& cycle : prompt.cycles) nodes += cycle.nodes;
  }
  return cycles > 0 ? nodes / cycles : 0;
}

double PolicyResults::verify_prediction_error_median() const {
  std::vector<double> errors;
  for (const PromptMeasurement& prompt : prompts) {
    for (const MeasuredCycle& cycle : prompt.cycles) {
      if (cycle.stages.verify <= 0) continue;
      errors.push_back(std::abs(cycle.predicted_verify - cycle.stages.verify) /
                       cycle.stages.verify);
    }
  }
  if (errors.empty()) return 0;
  std::nth_element(errors.begin(), errors.begin() + errors.size() / 2, errors.end());
  return errors[errors.size() / 2];
}

StageSeconds PolicyResults::stages() const {
  StageSeconds sum;
  for (const PromptMeasurement& prompt : prompts) {
    for (const MeasuredCycle& cycle : prompt.cycles) AddShare(cycle, sum);
  }
  return sum;
}

double BenchReport::SpeedupVsAr(const PolicyResults& policy) const {
  for (const PolicyResults& other : policies) {
    if (other.policy == "ar" && other.tokens_per_second() > 0) {
      return policy.tokens_per_second() / other.tokens_per_second();
    }
  }
  return 0;
}

std::vector<PolicyResults> PoliciesOf(const LevelResults& level) {
  std::vector<PolicyResults> policies;
  for (const ArmResults& arm : level.arms) {
    PolicyResults& policy = policies.emplace_back(PolicyResults{arm.policy, {}});
    for (const LoadRun& run : arm.rounds) {
      policy.prompts.insert(policy.prompts.end(), run.requests.begin(), run.requests.end());
    }
  }
  return policies;
}

std::string TextDifferences::ToString() const {
  return absl::StrCat(different, " of ", outputs, " outputs differ: ", first.message());
}

TextDifferences FindDifferentTexts(const BenchReport& report) {
  TextComparison comparison;
  for (const PolicyResults& policy : report.policies) {
    // The first level has the same outputs.
    comparison.Add(policy.policy, policy.prompts, /*counted=*/report.levels.empty());
  }
  for (const LevelResults& level : report.levels) {
    for (const ArmResults& arm : level.arms) {
      for (const LoadRun& run : arm.rounds) {
        const std::string where = absl::StrCat(arm.policy, " at ", level.level.ToString());
        comparison.Add(where, run.requests, /*counted=*/true);
      }
    }
  }
  return comparison.found();
}

absl::Status CheckSameTexts(const BenchReport& report) {
  for (const PolicyResults& policy : report.policies) {
    const PolicyResults& reference = report.policies.front();
    if (policy.prompts.size() != reference.prompts.size() && !report.counts_differ) {
      return absl::InternalError(absl::StrCat(policy.policy, " ran ", policy.prompts.size(),
                                              " prompts, but ", reference.policy, " ran ",
                                              reference.prompts.size()));
    }
  }
  const TextDifferences found = FindDifferentTexts(report);
  return found.first.ok() ? absl::OkStatus() : absl::DataLossError(found.ToString());
}

std::string MarkdownTable(const BenchReport& report) {
  std::string table =
      "| policy | tokens/s | vs ar | τ | nodes | draft ms | tree ms | verify ms | commit ms | "
      "transfer ms | verify prediction error |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const PolicyResults& policy : report.policies) {
    double cycles = 0;
    for (const PromptMeasurement& prompt : policy.prompts) {
      for (const MeasuredCycle& cycle : prompt.cycles) cycles += ShareOf(cycle);
    }
    const StageSeconds sum = policy.stages();
    const double ms = cycles > 0 ? 1e3 / cycles : 0;
    absl::StrAppendFormat(
        &table,
        "| %s | %.1f | %.2f× | %.2f | %.1f | %.3f | %.3f | %.3f | %.3f | %.3f | %.1f %% |\n",
        policy.policy, policy.tokens_per_second(), report.SpeedupVsAr(policy), policy.tau(),
        policy.mean_nodes(), sum.draft * ms, sum.tree * ms, sum.verify * ms, sum.commit * ms,
        sum.transfer * ms, 100 * policy.verify_prediction_error_median());
  }
  return table;
}

std::string AblationTable(const BenchReport& report) {
  static constexpr const char* kPriors[] = {"", "+prior:table", "+prior:request", "+prior"};
  std::string rows;
  for (const PolicyResults& base : report.policies) {
    const absl::StatusOr<Policy> policy = Policy::Parse(base.policy);
    if (policy.ok() && policy->prior() != Policy::Prior::kNone) continue;
    std::string cells;
    int found = 0;
    for (const char* const prior : kPriors) {
      const auto ran = std::find_if(
          report.policies.begin(), report.policies.end(),
          [&](const PolicyResults& other) { return other.policy == base.policy + prior; });
      if (ran == report.policies.end()) {
        absl::StrAppend(&cells, " – |");
        continue;
      }
      ++found;
      absl::StrAppendFormat(&cells, " %.2f, %.2f× |", ran->tau(), report.SpeedupVsAr(*ran));
    }
    if (found > 1) absl::StrAppend(&rows, "| ", base.policy, " |", cells, "\n");
  }
  if (rows.empty()) return rows;
  return "| τ, speed vs ar | no prior | table | request | both |\n|---|--:|--:|--:|--:|\n" + rows;
}

std::string ReportTables(const BenchReport& report) {
  std::string tables = LevelTables(report.levels, report.targets);
  const std::string first =
      report.levels.empty() ? "" : absl::StrCat(", ", report.levels[0].level.ToString());
  absl::StrAppend(
      &tables, "\n### One stream", first,
      "\n\nRates of a request exclude its prefill. Milliseconds are means per cycle.\n\n",
      MarkdownTable(report));
  std::vector<NamedLengthFit> fits;
  fits.reserve(report.policies.size());
  for (const PolicyResults& policy : report.policies) {
    fits.push_back({policy.policy, FitLengths(policy.prompts)});
  }
  absl::StrAppend(&tables, LengthFitTable(fits));
  if (report.latency_model.has_value()) {
    absl::StrAppend(&tables, LatencyModelTable(*report.latency_model));
  }
  for (const std::string& warning : CutWarnings(report.levels)) {
    absl::StrAppend(&tables, "\n**Warning:** ", warning, ".\n");
  }
  return tables;
}

absl::Status WriteReport(const BenchReport& report, const std::string& folder) {
  const TextDifferences texts = FindDifferentTexts(report);
  json policies = json::array();
  for (const PolicyResults& policy : report.policies)
    policies.push_back(PolicyJson(report, policy));
  const BenchSettings& settings = report.settings;
  const json results = {
      {"device", report.device},
      {"target", report.target},
      {"drafter", report.drafter},
      {"settings",
       {{"temperature", settings.sampling.temperature},
        {"seed", settings.sampling.seed},
        {"top_k", settings.sampling.top_k},
        {"top_p", settings.sampling.top_p},
        {"min_p", settings.sampling.min_p},
        {"repetition_penalty", settings.sampling.repetition_penalty},
        {"presence_penalty", settings.sampling.presence_penalty},
        {"frequency_penalty", settings.sampling.frequency_penalty},
        {"max_new_tokens", settings.max_new_tokens},
        {"concurrency", ConcurrencyJson(report)},
        {"ignore_eos", settings.ignore_eos},
        {"mode", report.mode}}},
      {"levels", LevelsJson(report.levels, report.targets)},
      {"outputs", {{"compared", texts.outputs}, {"different", texts.different}}},
      {"policies", policies},
      {"latency_model",
       report.latency_model.has_value() ? LatencyModelJson(*report.latency_model) : json(nullptr)},
      {"warnings", CutWarnings(report.levels)}};
  RETURN_IF_ERROR(WriteReportFile(folder, "results.json", results.dump(1)));
  const std::string heading = absl::StrFormat(
      "# bastion-bench\n\n%s, target %s, drafter %s, %s, temperature %g, seed %d, "
      "at most %d new tokens.\n",
      report.device, report.target, report.drafter, report.mode, settings.sampling.temperature,
      settings.sampling.seed, settings.max_new_tokens);
  const std::string ablation = AblationTable(report);
  const absl::Status same = CheckSameTexts(report);
  const std::string verdict =
      same.ok() ? "\nEvery policy generated the same tokens.\n"
                : absl::StrCat("\n**Outputs differ:** ", std::string(same.message()), "\n");
  return WriteReportFile(
      folder, "report.md",
      heading + ReportTables(report) + verdict + (ablation.empty() ? "" : "\n" + ablation));
}

}  // namespace bastion
