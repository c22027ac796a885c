#include "tools/exactness/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bastion {
namespace {

constexpr size_t kMaxDifferences = 40;

std::string TokenName(TokenId token) {
  return token == kNoToken ? "the end" : absl::StrCat("token ", token);
}

std::string GapText(const TextDifference& difference) {
  if (!difference.gap) return "gap unknown";
  return absl::StrFormat("gap %.3g%s%s", *difference.gap,
                         difference.raw_gap ? " (before penalties)" : "",
                         difference.rounding ? ", within rounding" : "");
}

std::string SettingName(const ChoiceParams& setting) {
  std::string name = absl::StrFormat("T %g", setting.temperature);
  if (setting.top_k > 0) absl::StrAppend(&name, ", top-k ", setting.top_k);
  if (setting.top_p < 1) absl::StrAppend(&name, ", top-p ", setting.top_p);
  if (setting.min_p > 0) absl::StrAppend(&name, ", min-p ", setting.min_p);
  return name;
}

std::string TestedChoices(int choices) {
  if (choices == 1) return "first choice";
  if (choices == 0) return "whole walk";
  return absl::StrCat("first ", choices);
}

int Sum(const TextReport& report, int PolicyTexts::*field) {
  int sum = 0;
  for (const PolicyTexts& policy : report.policies) sum += policy.*field;
  return sum;
}

}  // namespace

std::string TextTable(const TextReport& report) {
  std::string table = absl::StrFormat("%-18s %5s %6s %7s %5s %7s %16s\n", "policy", "batch",
                                      "texts", "tokens", "tau", "differ", "within rounding");
  for (const PolicyTexts& line : report.policies) {
    absl::StrAppendFormat(&table, "%-18s %5d %6d %7d %5.2f %7d %16d\n", line.policy,
                          line.batch_size, line.texts, line.tokens, line.tau(), line.different,
                          line.within_rounding);
  }
  const size_t shown = std::min(report.differences.size(), kMaxDifferences);
  for (size_t i = 0; i < shown; ++i) {
    const TextDifference& difference = report.differences[i];
    absl::StrAppendFormat(&table,
                          "prompt %s, %s, %s, batch %d: output token %d is %s, expected %s (%s; %d "
                          "more tokens differ)\n",
                          difference.prompt, difference.policy, difference.setting,
                          difference.batch_size, difference.position, TokenName(difference.actual),
                          TokenName(difference.expected), GapText(difference),
                          difference.tokens_after);
  }
  if (shown < report.differences.size()) {
    absl::StrAppend(&table, "… and ", report.differences.size() - shown, " more texts\n");
  }
  return table;
}

std::string DistributionTable(const DistributionReport& report) {
  std::string table = absl::StrFormat(
      "one tree of %d rows, depth %d; %d walks, %d choices; p-values below %.2g fail\n"
      "%-16s %-12s %7s %6s %10s %9s %9s %9s %9s\n",
      report.tree_rows, report.tree_depth, report.walks, report.choices, report.min_p_value,
      "setting", "tested", "draws", "bins", "chi-square", "p", "TV", "expected", "limit");
  for (const DistributionTest& test : report.tests) {
    absl::StrAppendFormat(&table, "%-16s %-12s %7d %6d %10.1f %9.2g %9.5f %9.5f %9.5f%s\n",
                          SettingName(test.setting), TestedChoices(test.choices), test.draws,
                          test.chi_square.degrees + 1, test.chi_square.statistic,
                          test.chi_square.p_value, test.total_variation, test.expected.mean,
                          test.max_total_variation, test.passed ? "" : "  FAILED");
  }
  return table;
}

std::string Verdict(const TextReport& texts,
                    const std::optional<DistributionReport>& distribution) {
  const int different = Sum(texts, &PolicyTexts::different);
  const int rounding = Sum(texts, &PolicyTexts::within_rounding);
  std::string found =
      absl::StrFormat("%d of %d texts differ", different, Sum(texts, &PolicyTexts::texts));
  if (rounding > 0) absl::StrAppend(&found, ", ", rounding, " more within rounding");
  bool exact = texts.exact();
  if (distribution) {
    const auto failed = std::count_if(distribution->tests.begin(), distribution->tests.end(),
                                      [](const DistributionTest& test) { return !test.passed; });
    absl::StrAppend(&found, "; ", failed, " of ", distribution->tests.size(),
                    " distribution tests fail over ", distribution->walks, " walks");
    exact = exact && distribution->exact();
  } else {
    absl::StrAppend(&found, "; distributions not checked");
  }
  if (!texts.speculated()) {
    absl::StrAppend(&found,
                    "; no drafted token was accepted, so the text check hardly tested speculation");
  }
  return absl::StrCat(exact ? "EXACT: " : "NOT EXACT: ", found);
}

}  // namespace bastion
