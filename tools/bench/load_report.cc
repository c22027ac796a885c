#include "tools/bench/load_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bastion {
namespace {

using nlohmann::json;

// A window with a smaller share of the tokens says little.
constexpr double kSmallShare = 0.5;

json QuantilesJson(const std::optional<Quantiles>& quantiles) {
  if (!quantiles.has_value()) return nullptr;
  return {{"p50", quantiles->p50}, {"p90", quantiles->p90}, {"p99", quantiles->p99}};
}

json RatioJson(const std::optional<RatioToPlain>& ratio) {
  if (!ratio.has_value()) return nullptr;
  return {{"median", ratio->median}, {"low", ratio->low}, {"high", ratio->high}};
}

json FiguresJson(const LoadFigures& figures) {
  return {{"requests", figures.requests},
          {"rejected", figures.rejected},
          {"seconds", figures.seconds},
          {"window_seconds", figures.window_seconds},
          {"window_share", figures.window_share},
          {"system_tokens_per_second", figures.tokens_per_second},
          {"all_tokens_per_second", figures.all_tokens_per_second},
          {"goodput_tokens_per_second", figures.goodput},
          {"fairness", figures.fairness},
          {"ttft_seconds", QuantilesJson(figures.ttft)},
          {"gap_seconds", QuantilesJson(figures.gap)},
          {"token_seconds", QuantilesJson(figures.token)},
          {"stream_tokens_per_second", QuantilesJson(figures.stream_rate)}};
}

Reliability ReliabilityOf(const ArmResults& arm) {
  Reliability sum;
  for (const LoadRun& run : arm.rounds) sum.Add(run.reliability);
  return sum;
}

// null without counts.
json ReliabilityJson(const ReliabilityTable& table) {
  if (table.count() == 0) return nullptr;
  json bins = json::array();
  for (const ReliabilityTable::Bin& bin : table.bins()) {
    const double count = std::max<double>(1, static_cast<double>(bin.count));
    bins.push_back({{"count", bin.count},
                    {"mean_stated", bin.stated / count},
                    {"accepted_share", static_cast<double>(bin.accepted) / count}});
  }
  return {{"expected_calibration_error", table.expected_calibration_error()}, {"bins", bins}};
}

json ArmJson(const ArmResults& arm, const LevelResults& level, const LatencyTargets& targets) {
  json rounds = json::array();
  for (const LoadRun& run : arm.rounds) {
    rounds.push_back(FiguresJson(ComputeLoadFigures({run}, level.level, targets)));
  }
  json result = FiguresJson(ComputeLoadFigures(arm.rounds, level.level, targets));
  result["policy"] = arm.policy;
  result["ratio_to_ar"] = RatioJson(RatioOf(arm, level));
  result["rounds"] = std::move(rounds);
  const Reliability reliability = ReliabilityOf(arm);
  if (reliability.before.count() > 0) {
    result["reliability"] = {{"before", ReliabilityJson(reliability.before)},
                             {"after", ReliabilityJson(reliability.after)}};
  }
  return result;
}

json LevelJson(const LoadLevel& level) {
  json result;
  if (level.closed()) {
    result["concurrency"] = level.concurrency;
  } else if (level.rate > 0) {
    result["rate"] = level.rate;
  } else {
    result["arrivals"] = level.arrivals;
  }
  return result;
}

// A value of `quantiles`, times `scale`. "–" if there is none.
std::string Cell(const std::optional<Quantiles>& quantiles, double Quantiles::*value,
                 double scale) {
  return quantiles.has_value() ? absl::StrFormat("%.1f", scale * ((*quantiles).*value)) : "–";
}

std::string RatioCell(const std::optional<RatioToPlain>& ratio) {
  if (!ratio.has_value()) return "–";
  return absl::StrFormat("%.2f× (%.2f–%.2f)", ratio->median, ratio->low, ratio->high);
}

std::string LevelTable(const LevelResults& level, const LatencyTargets& targets) {
  std::string table = absl::StrCat(
      "\n### ", level.level.ToString(),
      "\n\n| policy | tokens/s, system | vs ar, median of rounds (range) | tokens/s, stream p50 | "
      "TTFT ms p50 | p99 | gap ms p50 | p90 | p99 | goodput | fairness |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  int rejected = 0;
  double share = 1;
  for (const ArmResults& arm : level.arms) {
    const LoadFigures figures = ComputeLoadFigures(arm.rounds, level.level, targets);
    absl::StrAppendFormat(
        &table, "| %s | %.1f | %s | %s | %s | %s | %s | %s | %s | %.1f | %.3f |\n", arm.policy,
        figures.tokens_per_second, RatioCell(RatioOf(arm, level)),
        Cell(figures.stream_rate, &Quantiles::p50, 1), Cell(figures.ttft, &Quantiles::p50, 1e3),
        Cell(figures.ttft, &Quantiles::p99, 1e3), Cell(figures.gap, &Quantiles::p50, 1e3),
        Cell(figures.gap, &Quantiles::p90, 1e3), Cell(figures.gap, &Quantiles::p99, 1e3),
        figures.goodput, figures.fairness);
    rejected += figures.rejected;
    share = std::min(share, figures.window_share);
  }
  if (share < kSmallShare) {
    absl::StrAppendFormat(&table,
                          "\nOnly %.0f %% of the tokens of an arm came while the loop was full. "
                          "More requests (--repeat) make the figures more exact.\n",
                          100 * share);
  }
  if (rejected > 0) absl::StrAppend(&table, "\nThe server refused ", rejected, " requests.\n");
  return table;
}

// "0.31 → 0.28 (1204)": mean stated probability, accepted share and count of a bin.
std::string BinCell(const ReliabilityTable::Bin& bin) {
  if (bin.count == 0) return "–";
  const auto count = static_cast<double>(bin.count);
  return absl::StrFormat("%.2f → %.2f (%d)", bin.stated / count,
                         static_cast<double>(bin.accepted) / count, bin.count);
}

void AppendReliability(const std::string& name, const ReliabilityTable& table, std::string* rows) {
  if (table.count() == 0) return;
  absl::StrAppendFormat(rows, "| %s | %.4f |", name, table.expected_calibration_error());
  for (const ReliabilityTable::Bin& bin : table.bins()) {
    absl::StrAppend(rows, " ", BinCell(bin), " |");
  }
  absl::StrAppend(rows, "\n");
}

// Empty if no arm collected it.
std::string ReliabilityTableOf(const LevelResults& level) {
  std::string rows;
  for (const ArmResults& arm : level.arms) {
    const Reliability reliability = ReliabilityOf(arm);
    const bool calibrates = reliability.after.count() > 0;
    AppendReliability(arm.policy + (calibrates ? ", before" : ""), reliability.before, &rows);
    AppendReliability(arm.policy + ", after", reliability.after, &rows);
  }
  if (rows.empty()) return rows;
  std::string table =
      "\nStated probability → accepted share (nodes), by stated probability.\n\n"
      "| policy | calibration error |";
  std::string rule = "|---|--:|";
  for (int bin = 0; bin < ReliabilityTable::kBins; ++bin) {
    absl::StrAppendFormat(&table, " from %.1f |",
                          static_cast<double>(bin) / ReliabilityTable::kBins);
    absl::StrAppend(&rule, "--:|");
  }
  return absl::StrCat(table, "\n", rule, "\n", rows);
}

}  // namespace

json LevelsJson(const std::vector<LevelResults>& levels, const LatencyTargets& targets) {
  json result = json::array();
  for (const LevelResults& level : levels) {
    json entry = LevelJson(level.level);
    entry["arms"] = json::array();
    for (const ArmResults& arm : level.arms) {
      entry["arms"].push_back(ArmJson(arm, level, targets));
    }
    result.push_back(std::move(entry));
  }
  return result;
}

std::string LevelTables(const std::vector<LevelResults>& levels, const LatencyTargets& targets) {
  std::string tables;
  for (const LevelResults& level : levels) {
    tables += LevelTable(level, targets) + ReliabilityTableOf(level);
  }
  return tables;
}

}  // namespace bastion
