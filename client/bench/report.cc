#include "client/bench/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "orchestrator/policy/policy.h"

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

void Add(const StageSeconds& more, StageSeconds& sum) {
  sum.draft += more.draft;
  sum.tree += more.tree;
  sum.verify_queue += more.verify_queue;
  sum.verify += more.verify;
  sum.commit += more.commit;
  sum.audit += more.audit;
  sum.transfer += more.transfer;
}

json PromptJson(const PromptMeasurement& prompt) {
  json lengths = json::array(), nodes = json::array();
  StageSeconds stages;
  for (const MeasuredCycle& cycle : prompt.cycles) {
    lengths.push_back(cycle.committed_length);
    nodes.push_back(cycle.nodes);
    Add(cycle.stages, stages);
  }
  return {{"id", prompt.id},
          {"output_token_ids", prompt.output},
          {"committed_lengths", lengths},
          {"nodes_per_cycle", nodes},
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
          {"prompts", prompts}};
}

}  // namespace

absl::Status WriteReportFile(const std::string& folder, const std::string& name,
                             const std::string& content) {
  std::error_code error;  // Ignored: if this fails, writing the file fails too.
  std::filesystem::create_directories(folder, error);
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
    for (const MeasuredCycle& cycle : prompt.cycles) Add(cycle.stages, sum);
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

absl::Status CheckSameTexts(const BenchReport& report) {
  for (const PolicyResults& policy : report.policies) {
    const PolicyResults& reference = report.policies.front();
    if (policy.prompts.size() != reference.prompts.size()) {
      return absl::InternalError(absl::StrCat(policy.policy, " ran ", policy.prompts.size(),
                                              " prompts, but ", reference.policy, " ran ",
                                              reference.prompts.size()));
    }
    for (size_t i = 0; i < policy.prompts.size(); ++i) {
      const std::vector<TokenId>& expected = reference.prompts[i].output;
      const std::vector<TokenId>& actual = policy.prompts[i].output;
      if (actual == expected) continue;
      const auto [at, other] =
          std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
      return absl::DataLossError(
          absl::StrCat("prompt ", policy.prompts[i].id, ": ", policy.policy, " and ",
                       reference.policy, " first differ at output token ", at - actual.begin(),
                       " (", actual.size(), " and ", expected.size(), " tokens)"));
    }
  }
  return absl::OkStatus();
}

std::string MarkdownTable(const BenchReport& report) {
  std::string table =
      "| policy | tokens/s | vs ar | τ | nodes | draft ms | tree ms | verify ms | commit ms | "
      "transfer ms | verify prediction error |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const PolicyResults& policy : report.policies) {
    size_t cycles = 0;
    for (const PromptMeasurement& prompt : policy.prompts) cycles += prompt.cycles.size();
    const StageSeconds sum = policy.stages();
    const double ms = cycles > 0 ? 1e3 / static_cast<double>(cycles) : 0;
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

absl::Status WriteReport(const BenchReport& report, const std::string& folder) {
  json policies = json::array();
  for (const PolicyResults& policy : report.policies)
    policies.push_back(PolicyJson(report, policy));
  const BenchSettings& settings = report.settings;
  const json results = {{"device", report.device},
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
                          {"concurrency", settings.concurrency},
                          {"mode", report.mode}}},
                        {"policies", policies}};
  RETURN_IF_ERROR(WriteReportFile(folder, "results.json", results.dump(1)));
  const std::string heading = absl::StrFormat(
      "# bastion-bench\n\n%s, target %s, drafter %s, %s, temperature %g, seed %d, "
      "at most %d new tokens, concurrency %d. Rates exclude prefill. Milliseconds are means per "
      "cycle.\n\n",
      report.device, report.target, report.drafter, report.mode, settings.sampling.temperature,
      settings.sampling.seed, settings.max_new_tokens, settings.concurrency);
  const std::string ablation = AblationTable(report);
  const absl::Status same = CheckSameTexts(report);
  const std::string verdict =
      same.ok() ? "\nEvery policy generated the same tokens.\n"
                : absl::StrCat("\n**Outputs differ:** ", std::string(same.message()), "\n");
  return WriteReportFile(
      folder, "report.md",
      heading + MarkdownTable(report) + verdict + (ablation.empty() ? "" : "\n" + ablation));
}

}  // namespace bastion
