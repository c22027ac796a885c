#include "tools/bench/suite_tables.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/generation_tables.h"

namespace bastion {
namespace {

using Rows = std::vector<const ArmFigures*>;

bool IsFixed(const ArmFigures& figures) { return absl::StartsWith(figures.policy, "fixed:"); }

std::vector<std::string> DatasetsOf(const std::vector<ArmFigures>& figures, const SuiteCell& cell) {
  std::vector<std::string> names;
  for (const ArmFigures& row : figures) {
    SuiteCell all = row.cell;
    all.dataset.clear();
    if (!(all == cell) || row.cell.dataset.empty()) continue;
    if (std::find(names.begin(), names.end(), row.cell.dataset) == names.end()) {
      names.push_back(row.cell.dataset);
    }
  }
  if (names.empty()) names.emplace_back();
  return names;
}

const ArmFigures* Find(const std::vector<ArmFigures>& figures, const SuiteCell& cell,
                       const std::string& policy) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const ArmFigures& row) {
    return row.cell == cell && row.policy == policy;
  });
  return found == figures.end() ? nullptr : &*found;
}

// "4.31×", with its interval if there is one: "4.31× (4.02–4.60)".
std::string SpeedupCell(const ArmFigures& row) {
  if (row.speedup <= 0) return "–";
  std::string speedup = absl::StrFormat("%.2f×", row.speedup);
  if (!row.spread.has_value()) return speedup;
  return absl::StrFormat("%s (%.2f–%.2f)", speedup, row.spread->low, row.spread->high);
}

// A row of the table "datasets": the figures of each dataset, then their means.
std::string DatasetRow(const std::string& name, const Rows& rows) {
  std::string line = absl::StrCat("| ", name, " |");
  double speedup = 0, tau = 0;
  for (const ArmFigures* const row : rows) {
    if (row == nullptr) return "";
    const std::string budget = name == row->policy ? "" : absl::StrCat(", ", row->policy);
    absl::StrAppendFormat(&line, " %s%s | %.2f |", SpeedupCell(*row), budget, row->tau);
    speedup += row->speedup / static_cast<double>(rows.size());
    tau += row->tau / static_cast<double>(rows.size());
  }
  if (rows.size() > 1) absl::StrAppendFormat(&line, " %.2f× | %.2f |", speedup, tau);
  return line + "\n";
}

std::string DatasetsTable(const std::vector<ArmFigures>& figures, const SuiteCell& cell) {
  const std::vector<std::string> datasets = DatasetsOf(figures, cell);
  std::string table = "| policy |", rule = "|---|";
  for (const std::string& name : datasets) {
    absl::StrAppend(&table, " ", name.empty() ? "all prompts" : name, " | τ |");
    rule += "--:|--:|";
  }
  if (datasets.size() > 1) {
    table += " mean | τ |";
    rule += "--:|--:|";
  }
  absl::StrAppend(&table, "\n", rule, "\n");
  SuiteCell part = cell;
  const auto row_of = [&](const auto& pick) {
    Rows rows;
    for (const std::string& name : datasets) {
      part.dataset = name;
      rows.push_back(pick());
    }
    return rows;
  };
  for (const ArmFigures& first : figures) {
    if (!(first.cell == cell) || first.policy == "ar" || IsFixed(first)) continue;
    table += DatasetRow(first.policy, row_of([&] { return Find(figures, part, first.policy); }));
  }
  return table + DatasetRow("oracle", row_of([&] { return Oracle(figures, part); }));
}

// The mean over the datasets of the fastest fixed budget of each.
std::string OracleRow(const std::vector<ArmFigures>& figures, const SuiteCell& cell) {
  double speedup = 0, tau = 0, nodes = 0;
  const std::vector<std::string> datasets = DatasetsOf(figures, cell);
  for (const std::string& name : datasets) {
    SuiteCell part = cell;
    part.dataset = name;
    const ArmFigures* const best = Oracle(figures, part);
    if (best == nullptr) return "";
    const double share = 1 / static_cast<double>(datasets.size());
    speedup += share * best->speedup;
    tau += share * best->tau;
    nodes += share * best->nodes;
  }
  return absl::StrFormat("| oracle | %.2f× | %.2f | %.1f | |\n", speedup, tau, nodes);
}

// A row per policy, without the oracle.
std::string PolicyRows(const Rows& rows) {
  std::string table =
      "| policy | speedup (95 % interval) | τ | nodes | accepted |\n|---|--:|--:|--:|--:|\n";
  for (const ArmFigures* const row : rows) {
    absl::StrAppendFormat(&table, "| %s | %s | %.2f | %.1f | %.1f %% |\n", row->policy,
                          SpeedupCell(*row), row->tau, row->nodes, 100 * row->acceptance);
  }
  return table;
}

std::string StagesTable(const Rows& rows) {
  std::string table =
      "| policy | rows | τ | draft ms | aux ms | verify ms | cycle ms |\n"
      "|---|--:|--:|--:|--:|--:|--:|\n";
  for (const ArmFigures* const row : rows) {
    const StageSeconds& cycle = row->times.cycle;
    // T_aux: tree construction, cache update and transport (BASTION, section 2.1).
    const double aux = cycle.tree + cycle.commit + cycle.transfer + cycle.verify_queue;
    absl::StrAppendFormat(&table, "| %s | %.1f | %.2f | %.3f | %.3f | %.3f | %.3f |\n", row->policy,
                          row->nodes + 1, row->tau, 1e3 * cycle.draft, 1e3 * aux,
                          1e3 * cycle.verify, 1e3 * (cycle.draft + aux + cycle.verify));
  }
  return table;
}

// Pairs beam trees with best-first trees of about the same mean size.
std::string TopologyTable(const Rows& rows) {
  constexpr double kSameSize = 0.1;
  std::string table = PolicyRows(rows), pairs;
  for (const ArmFigures* const beam : rows) {
    if (!absl::StartsWith(beam->policy, "beam:")) continue;
    for (const ArmFigures* const other : rows) {
      const double difference = other->nodes - beam->nodes;
      if (!IsFixed(*other) || std::abs(difference) > kSameSize * beam->nodes) continue;
      absl::StrAppendFormat(
          &pairs, "\n%s against %s: nodes %+.1f %%, speed %+.1f %%, τ %+.1f %%.\n", other->policy,
          beam->policy, 100 * difference / beam->nodes, 100 * (other->speedup / beam->speedup - 1),
          100 * (other->tau / beam->tau - 1));
    }
  }
  return table + (pairs.empty() ? "\nNo best-first tree has the size of a beam.\n" : pairs);
}

std::string CorrelationTable(const Rows& rows) {
  std::string table = "| policy | cycles | Pearson | Spearman |\n|---|--:|--:|--:|\n";
  for (const ArmFigures* const row : rows) {
    const LengthCorrelation& length = row->expected_length;
    if (length.cycles == 0) continue;
    absl::StrAppendFormat(&table, "| %s | %d | %.3f | %.3f |\n", row->policy, length.cycles,
                          length.pearson, length.spearman);
  }
  return table;
}

std::string HistogramTable(const Rows& rows) {
  int longest = 1;
  for (const ArmFigures* const row : rows) {
    if (!row->lengths.empty()) longest = std::max(longest, row->lengths.rbegin()->first);
  }
  std::string table = "| policy | τ |", rule = "|---|--:|";
  for (int length = 1; length <= longest; ++length) {
    absl::StrAppend(&table, " ", length, " |");
    rule += "--:|";
  }
  absl::StrAppend(&table, "\n", rule, "\n");
  for (const ArmFigures* const row : rows) {
    double cycles = 0;
    for (const auto& [length, count] : row->lengths) cycles += static_cast<double>(count);
    if (cycles == 0 || row->policy == "ar") continue;
    absl::StrAppendFormat(&table, "| %s | %.2f |", row->policy, row->tau);
    for (int length = 1; length <= longest; ++length) {
      const auto found = row->lengths.find(length);
      const double count = found == row->lengths.end() ? 0 : static_cast<double>(found->second);
      absl::StrAppendFormat(&table, " %.1f %% |", 100 * count / cycles);
    }
    table += "\n";
  }
  return table;
}

struct Table {
  const char* name;
  const char* heading;
  std::string (*rows)(const Rows& rows);  // Null: the table needs more than the rows of a cell.
};

constexpr Table kTables[] = {{"datasets", "Speedup by dataset", nullptr},
                             {"budgets", "Budgets", nullptr},
                             {"latency", "Latency models", nullptr},
                             {"prompts", "Prompt lengths", nullptr},
                             {"load", "Load", nullptr},
                             {"stages", "Stages of a cycle", StagesTable},
                             {"topology", "Shapes of trees", TopologyTable},
                             {"estimators", "Latency estimators", PolicyRows},
                             {"correlation", "Expected and accepted length", CorrelationTable},
                             {"histogram", "Cycles by committed length", HistogramTable},
                             {"generation", "Generation", GenerationTable},
                             {"depths", "Nodes by depth, accepted / offered", DepthTable}};

const Table* FindTable(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kTables), std::end(kTables),
                                         [&](const Table& table) { return name == table.name; });
  return found == std::end(kTables) ? nullptr : found;
}

// "temperature 1, concurrency 2, prompts of 800 tokens".
std::string CellName(const SuiteCell& cell) {
  std::string name = absl::StrFormat("temperature %g", cell.temperature);
  if (cell.concurrency > 1) absl::StrAppend(&name, ", concurrency ", cell.concurrency);
  if (cell.prompt_tokens > 0)
    absl::StrAppend(&name, ", prompts of ", cell.prompt_tokens, " tokens");
  return name;
}

std::string CellTable(const Table& table, const std::vector<ArmFigures>& figures,
                      const SuiteCell& cell) {
  Rows rows;
  for (const ArmFigures& row : figures) {
    if (row.cell == cell) rows.push_back(&row);
  }
  if (table.rows != nullptr) return table.rows(rows);
  if (std::strcmp(table.name, "datasets") == 0) return DatasetsTable(figures, cell);
  return PolicyRows(rows) + OracleRow(figures, cell);
}

}  // namespace

bool IsSuiteTable(std::string_view name) { return FindTable(name) != nullptr; }

std::string SuiteTable(std::string_view name, const std::vector<ArmFigures>& figures) {
  const Table& table = *FindTable(name);
  if (name == "latency") return "";
  if (name == "prompts") return PromptsTable(figures);
  if (name == "load") return LoadTable(figures);
  std::string text;
  std::vector<SuiteCell> done;
  for (const ArmFigures& row : figures) {
    const SuiteCell& cell = row.cell;
    if (!cell.dataset.empty() || std::find(done.begin(), done.end(), cell) != done.end()) continue;
    done.push_back(cell);
    absl::StrAppend(&text, "\n### ", table.heading, ", ", CellName(cell), "\n\n",
                    CellTable(table, figures, cell));
  }
  return text;
}

const ArmFigures* Oracle(const std::vector<ArmFigures>& figures, const SuiteCell& cell) {
  const ArmFigures* best = nullptr;
  for (const ArmFigures& row : figures) {
    if (!(row.cell == cell) || !IsFixed(row)) continue;
    if (best == nullptr || row.speedup > best->speedup) best = &row;
  }
  return best;
}

}  // namespace bastion
