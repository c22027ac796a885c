#include "tools/bench/generation_tables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bastion {
namespace {

// A table with a column per value of `column`, and a heading for each setting of the rest of the
// cell.
class CrossTable {
 public:
  CrossTable(const std::vector<ArmFigures>& figures, int SuiteCell::*column, const char* heading,
             const char* unit)
      : figures_(figures), column_(column), heading_(heading), unit_(unit) {
    for (const ArmFigures& row : figures) {
      if (row.cell.dataset.empty()) AddUnique(row.cell.*column, &columns_);
    }
  }

  // `cell` gives the text of a policy at a value of the column.
  [[nodiscard]] std::string Markdown(std::string (*cell)(const ArmFigures& row)) const {
    if (columns_.size() < 2) return "";
    std::string text;
    std::vector<SuiteCell> done;
    for (const ArmFigures& row : figures_) {
      SuiteCell rest = row.cell;
      rest.*column_ = 0;
      if (!rest.dataset.empty() || std::find(done.begin(), done.end(), rest) != done.end())
        continue;
      done.push_back(rest);
      absl::StrAppend(&text, "\n### ", heading_,
                      absl::StrFormat(", temperature %g", rest.temperature), "\n\n",
                      Part(rest, cell));
    }
    return text;
  }

 private:
  template <typename Value>
  static void AddUnique(const Value& value, std::vector<Value>* values) {
    if (std::find(values->begin(), values->end(), value) == values->end()) {
      values->push_back(value);
    }
  }

  std::string Part(const SuiteCell& rest, std::string (*cell)(const ArmFigures& row)) const {
    std::string table = "| policy |", rule = "|---|";
    for (const int value : columns_) {
      absl::StrAppend(&table, " ", value, " ", unit_, " |");
      rule += "--:|";
    }
    absl::StrAppend(&table, "\n", rule, "\n");
    std::vector<std::string> policies;
    for (const ArmFigures& row : figures_) AddUnique(row.policy, &policies);
    for (const std::string& policy : policies) {
      absl::StrAppend(&table, "| ", policy, " |");
      for (const int value : columns_) {
        SuiteCell at = rest;
        at.*column_ = value;
        const auto found = std::find_if(
            figures_.begin(), figures_.end(),
            [&](const ArmFigures& row) { return row.cell == at && row.policy == policy; });
        absl::StrAppend(&table, " ", found == figures_.end() ? "–" : cell(*found), " |");
      }
      table += "\n";
    }
    return table;
  }

  const std::vector<ArmFigures>& figures_;
  int SuiteCell::*const column_;
  const char* const heading_;
  const char* const unit_;
  std::vector<int> columns_;
};

}  // namespace

std::string GenerationTable(const std::vector<const ArmFigures*>& rows) {
  const auto plain = std::find_if(rows.begin(), rows.end(),
                                  [](const ArmFigures* row) { return row->policy == "ar"; });
  const double base = plain == rows.end() ? 0 : static_cast<double>((*plain)->peak_memory);
  std::string table =
      "| policy | tokens/s | speedup | accepted | tokens / cycle | nodes | TTFT ms | TPOT ms | "
      "peak MB | vs ar |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const ArmFigures* const row : rows) {
    const auto memory = static_cast<double>(row->peak_memory);
    absl::StrAppendFormat(
        &table, "| %s | %.1f | %.2f× | %.1f %% | %.2f | %.1f | %.2f | %.3f | %s | %s |\n",
        row->policy, row->stream_tokens_per_second, row->speedup, 100 * row->acceptance, row->tau,
        row->nodes, 1e3 * row->times.ttft, 1e3 * row->times.tpot,
        memory > 0 ? absl::StrFormat("%.1f", memory / 1e6) : "–",
        base > 0 && memory > 0 ? absl::StrFormat("%+.2f %%", 100 * (memory / base - 1)) : "–");
  }
  return table + "\nPeak memory is that of the whole process, which holds both models.\n";
}

std::string DepthTable(const std::vector<const ArmFigures*>& rows) {
  size_t deepest = 0;
  for (const ArmFigures* const row : rows) deepest = std::max(deepest, row->depths.size());
  if (deepest == 0) return "The policies offered no nodes.\n";
  std::string table = "| policy |", rule = "|---|";
  for (size_t depth = 1; depth <= deepest; ++depth) {
    absl::StrAppend(&table, " ", depth, " |");
    rule += "--:|";
  }
  absl::StrAppend(&table, "\n", rule, "\n");
  for (const ArmFigures* const row : rows) {
    if (row->depths.empty()) continue;
    absl::StrAppend(&table, "| ", row->policy, " |");
    for (size_t depth = 0; depth < deepest; ++depth) {
      if (depth >= row->depths.size()) {
        table += " – |";
        continue;
      }
      const DepthCount& count = row->depths[depth];
      absl::StrAppend(&table, " ", count.accepted, " / ", count.offered, " |");
    }
    table += "\n";
  }
  return table;
}

std::string PromptsTable(const std::vector<ArmFigures>& figures) {
  return CrossTable(figures, &SuiteCell::prompt_tokens, "Tokens per second by prompt length",
                    "tokens")
      .Markdown([](const ArmFigures& row) {
        return absl::StrFormat("%.1f (%.2f×)", row.stream_tokens_per_second, row.speedup);
      });
}

std::string LoadTable(const std::vector<ArmFigures>& figures) {
  return CrossTable(figures, &SuiteCell::concurrency,
                    "System tokens per second (speedup; TTFT, TPOT in ms)", "live")
      .Markdown([](const ArmFigures& row) {
        return absl::StrFormat("%.1f (%.2f×; %.1f, %.2f)", row.system_tokens_per_second,
                               row.speedup, 1e3 * row.times.ttft, 1e3 * row.times.tpot);
      });
}

}  // namespace bastion
