#include "tools/bench/suite_report.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "tools/bench/report.h"
#include "tools/bench/suite_json.h"
#include "tools/bench/suite_tables.h"

namespace bastion {
namespace {

using nlohmann::json;

json RequestJson(const PromptMeasurement& request, const std::string& dataset) {
  json lengths = json::array(), nodes = json::array();
  for (const MeasuredCycle& cycle : request.cycles) {
    lengths.push_back(cycle.committed_length);
    nodes.push_back(cycle.nodes);
  }
  return {
      {"id", request.id},
      {"dataset", dataset},
      {"output_token_ids", request.output},
      {"committed_lengths", lengths},
      {"nodes_per_cycle", nodes},
      {"seconds", request.seconds},
      {"prefill_seconds", request.prefill_seconds},
      {"ttft_seconds", request.deltas.empty() ? 0 : request.deltas.front().at - request.arrived}};
}

SuitePanel ReadPanel(const json& json) {
  SuitePanel panel;
  json.at("device").get_to(panel.device);
  json.at("target").get_to(panel.target);
  json.at("drafter").get_to(panel.drafter);
  json.at("mode").get_to(panel.mode);
  json.at("same_texts").get_to(panel.same_texts);
  for (const auto& figures : json.at("figures")) panel.figures.push_back(ReadFigures(figures));
  panel.latency = ReadLatency(json.at("latency"));
  return panel;
}

std::string PanelMarkdown(const Suite& suite, const SuitePanel& panel) {
  std::string text = absl::StrFormat("\n## %s, target %s, drafter %s, %s\n", panel.device,
                                     panel.target, panel.drafter, panel.mode);
  for (const std::string& table : suite.tables) text += SuiteTable(table, panel.figures);
  text += LatencyTable(panel.latency);
  if (panel.figures.empty()) return text;
  return text + (panel.same_texts ? "\nEvery policy generated the same tokens.\n"
                                  : "\n**Outputs differ between policies.**\n");
}

absl::StatusOr<json> ReadResults(const std::string& folder) {
  const std::string name = folder + "/results.json";
  std::ifstream file(name);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(name, ": cannot read the file; name a folder that a suite wrote"));
  }
  json results = json::parse(file, nullptr, /*allow_exceptions=*/false);
  RETURN_IF_ERROR(ParseReport(results, name).status());
  return results;
}

}  // namespace

json RunsJson(const std::vector<SuiteRun>& runs, const DatasetOf& datasets) {
  json all = json::array();
  for (const SuiteRun& run : runs) {
    for (const LevelResults& level : run.levels) {
      for (const ArmResults& arm : level.arms) {
        json requests = json::array();
        for (const LoadRun& round : arm.rounds) {
          for (const PromptMeasurement& request : round.requests) {
            requests.push_back(RequestJson(request, datasets.at(request.id)));
          }
        }
        all.push_back({{"temperature", run.temperature},
                       {"seed", run.seed},
                       {"prompt_tokens", run.prompt_tokens},
                       {"concurrency", level.level.concurrency},
                       {"policy", arm.policy},
                       {"requests", requests}});
      }
    }
  }
  return all;
}

json ReportJson(const SuiteReport& report, const std::vector<json>& runs) {
  json panels = json::array();
  for (size_t i = 0; i < report.panels.size(); ++i) {
    const SuitePanel& panel = report.panels[i];
    json figures = json::array();
    for (const ArmFigures& row : panel.figures) figures.push_back(FiguresJson(row));
    panels.push_back({{"device", panel.device},
                      {"target", panel.target},
                      {"drafter", panel.drafter},
                      {"mode", panel.mode},
                      {"same_texts", panel.same_texts},
                      {"figures", figures},
                      {"latency", LatencyJson(panel.latency)},
                      {"runs", i < runs.size() ? runs[i] : json::array()}});
  }
  return {{"suite", SuiteJson(report.suite)}, {"panels", panels}};
}

absl::StatusOr<SuiteReport> ParseReport(const json& json, const std::string& origin) {
  const auto wrong = [&](std::string_view problem) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": not the results of a suite (", std::string(problem), ")"));
  };
  if (!json.is_object() || !json.contains("suite") || !json.contains("panels")) {
    return wrong("it has no suite and panels");
  }
  SuiteReport report;
  ASSIGN_OR_RETURN(report.suite, ParseSuite(json["suite"].dump(), origin));
  try {
    for (const auto& panel : json["panels"]) report.panels.push_back(ReadPanel(panel));
  } catch (const nlohmann::json::exception& error) {
    return wrong(error.what());
  }
  if (report.panels.empty()) return wrong("it has no panel");
  return report;
}

std::string ReportMarkdown(const SuiteReport& report) {
  const Suite& suite = report.suite;
  std::string text = absl::StrCat("# ", suite.name, ": ", suite.title, "\n");
  if (!suite.paper.empty()) absl::StrAppend(&text, "\n", suite.paper, " reports:\n\n");
  for (const std::string& statement : suite.reported) absl::StrAppend(&text, "- ", statement, "\n");
  if (!suite.policies.empty()) {
    absl::StrAppendFormat(
        &text, "\nAt most %d new tokens. Warm-up prompts per policy: %d. Rounds: %d. Seeds: %d.\n",
        suite.load.max_new_tokens, suite.load.warmup, suite.load.rounds,
        static_cast<int>(suite.grid.seeds.size()));
  }
  for (const SuitePanel& panel : report.panels) text += PanelMarkdown(suite, panel);
  return text;
}

absl::StatusOr<std::string> WriteSuiteReport(const json& report, const std::string& folder) {
  ASSIGN_OR_RETURN(const SuiteReport parsed, ParseReport(report, "the report"));
  std::string text = ReportMarkdown(parsed);
  RETURN_IF_ERROR(WriteReportFile(folder, "results.json", report.dump(1)));
  RETURN_IF_ERROR(WriteReportFile(folder, "report.md", text));
  return text;
}

absl::StatusOr<json> MergeReports(const std::vector<std::string>& folders) {
  if (folders.empty()) {
    return absl::InvalidArgumentError(
        "merge: name the folders of the reports. Example: bastion-bench merge a100 h100 --report "
        "both");
  }
  json merged;
  std::set<std::tuple<std::string, std::string, std::string>> panels;
  for (const std::string& folder : folders) {
    ASSIGN_OR_RETURN(json results, ReadResults(folder));
    if (merged.is_null()) {
      merged = {{"suite", results["suite"]}, {"panels", json::array()}};
    }
    if (results["suite"]["name"] != merged["suite"]["name"]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "merge: ", folder, " has the suite ", results["suite"]["name"].get<std::string>(),
          ", but ", folders.front(), " has ", merged["suite"]["name"].get<std::string>(),
          "; merge reports of one suite"));
    }
    for (const json& panel : results["panels"]) {
      const bool added =
          panels
              .emplace(panel["device"].get<std::string>(), panel["target"].get<std::string>(),
                       panel["drafter"].get<std::string>())
              .second;
      if (!added) {
        return absl::InvalidArgumentError(absl::StrCat(
            "merge: ", folder, " has the same device and models as an earlier folder: ",
            panel["device"].get<std::string>(), "; leave one of them out"));
      }
      merged["panels"].push_back(panel);
    }
  }
  return merged;
}

}  // namespace bastion
