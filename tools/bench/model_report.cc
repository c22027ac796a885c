#include "tools/bench/model_report.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "tools/bench/correlation.h"

namespace bastion {
namespace {

using nlohmann::json;

// Why a tree was cut, for people. Null for reasons that are no cut.
const char* CutBy(const std::string& reason) {
  static constexpr std::pair<const char*, const char*> kCuts[] = {
      {"rows", "by the rows of the forward (--max_rows)"},
      {"share", "to the request's share of the forward's rows (--max_rows, --concurrency)"},
      {"server_limit", "by --max_tree_nodes of the server"},
      {"request_limit", "by max_tree_nodes of the request"}};
  for (const auto& [name, meaning] : kCuts) {
    if (reason == name) return meaning;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<LatencyModel> DescribeLatencyModel(const ProfiledTarget& profiled) {
  LatencyModel model = {profiled, {}, {}};
  const TargetInfo& target = profiled.target;
  ASSIGN_OR_RETURN(const Roofline roofline,
                   Roofline::Make(target.dims, profiled.profile.PeaksFor(target)));
  ASSIGN_OR_RETURN(model.fit, FitPaperModels(roofline, profiled.profile));
  for (const ProfilePoint& point : profiled.profile.points) {
    model.roofline_seconds.push_back(roofline.Seconds(point.rows, point.context));
  }
  return model;
}

json LatencyModelJson(const LatencyModel& model) {
  const PaperFit& fit = model.fit;
  return {{"calibration", ProfileJson(model.profiled)},
          {"roofline_seconds", model.roofline_seconds},
          {"static",
           {{"slope", fit.line.slope},
            {"intercept_seconds", fit.line.intercept},
            {"floor_seconds", fit.line.floor_seconds}}},
          {"roofline_scale", fit.scale},
          {"rmse_seconds",
           {{"roofline", fit.roofline_rmse},
            {"scaled_roofline", fit.scaled_rmse},
            {"static", fit.static_rmse}}},
          {"rmse_cut", fit.cut()}};
}

std::string LatencyModelTable(const LatencyModel& model) {
  int measured = 0;
  std::set<int> contexts;
  for (const ProfilePoint& point : model.profiled.profile.points) {
    measured += point.interpolated ? 0 : 1;
    contexts.insert(point.context);
  }
  const PaperFit& fit = model.fit;
  return absl::StrFormat(
      "\n### Latency model of BASTION\n\n"
      "%d measured points: 1 to %d rows after %s cached tokens.\n\n"
      "| prediction | RMSE ms |\n|---|--:|\n"
      "| bare roofline R | %.3f |\n"
      "| best multiple, %.3f·R | %.3f |\n"
      "| Static, %.3f·R %c %.3f ms | %.3f |\n\n"
      "Static removes %.0f %% of the error of the bare roofline (the paper: %.0f to %.0f %%).\n",
      measured, model.profiled.profile.max_rows(), absl::StrJoin(contexts, ", "),
      1e3 * fit.roofline_rmse, fit.scale, 1e3 * fit.scaled_rmse, fit.line.slope,
      fit.line.intercept < 0 ? '-' : '+', 1e3 * std::abs(fit.line.intercept), 1e3 * fit.static_rmse,
      100 * fit.cut(), 100 * PaperFit::kPaperCutLow, 100 * PaperFit::kPaperCutHigh);
}

LengthFit FitLengths(const std::vector<PromptMeasurement>& prompts) {
  std::vector<std::pair<double, double>> lengths;
  LengthFit fit;
  for (const PromptMeasurement& prompt : prompts) {
    for (const MeasuredCycle& cycle : prompt.cycles) {
      if (cycle.nodes == 0) continue;
      lengths.emplace_back(cycle.expected_length - 1, cycle.accepted);
      fit.mean_expected += lengths.back().first;
      fit.mean_accepted += lengths.back().second;
    }
  }
  fit.cycles = static_cast<int>(lengths.size());
  if (lengths.empty()) return fit;
  fit.mean_expected /= fit.cycles;
  fit.mean_accepted /= fit.cycles;
  fit.pearson = Pearson(lengths);
  fit.spearman = Spearman(lengths);
  return fit;
}

json LengthFitJson(const LengthFit& fit) {
  if (fit.cycles == 0) return nullptr;
  return {{"cycles", fit.cycles},
          {"mean_expected", fit.mean_expected},
          {"mean_accepted", fit.mean_accepted},
          {"pearson", fit.pearson},
          {"spearman", fit.spearman}};
}

std::string LengthFitTable(const std::vector<NamedLengthFit>& fits) {
  std::string rows;
  for (const auto& [policy, fit] : fits) {
    if (fit.cycles == 0) continue;
    absl::StrAppendFormat(&rows, "| %s | %d | %.2f | %.2f | %.2f | %.2f |\n", policy, fit.cycles,
                          fit.mean_expected, fit.mean_accepted, fit.pearson, fit.spearman);
  }
  if (rows.empty()) return rows;
  return absl::StrCat(
      "\n### Expected and accepted nodes\n\n"
      "Â is the sum of a tree's path probabilities, without the root. The paper (BASTION, figure "
      "6) "
      "reports 0.79 to 0.82 and 0.72 to 0.80 for the chain.\n\n"
      "| policy | trees | mean Â | mean accepted | Pearson | Spearman |\n"
      "|---|--:|--:|--:|--:|--:|\n",
      rows);
}

std::vector<std::string> CutWarnings(const std::vector<LevelResults>& levels) {
  std::vector<std::string> warnings;
  for (const LevelResults& level : levels) {
    for (const ArmResults& arm : level.arms) {
      std::map<std::string, int> cuts;  // By reason.
      int cycles = 0;
      for (const LoadRun& run : arm.rounds) {
        for (const PromptMeasurement& request : run.requests) {
          cycles += static_cast<int>(request.cycles.size());
          for (const MeasuredCycle& cycle : request.cycles) {
            if (CutBy(cycle.reason) != nullptr) ++cuts[cycle.reason];
          }
        }
      }
      for (const auto& [reason, count] : cuts) {
        warnings.push_back(absl::StrCat(arm.policy, " at ", level.level.ToString(), ": ", count,
                                        " of ", cycles, " trees were cut ", CutBy(reason)));
      }
    }
  }
  return warnings;
}

}  // namespace bastion
