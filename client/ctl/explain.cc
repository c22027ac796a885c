#include "client/ctl/explain.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bastion/durations.h"
#include "client/ctl/printable_text.h"

namespace bastion {
namespace {

constexpr size_t kCommittedCharacters = 60;

std::string Count(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// The committed tokens on one line.
std::string CommittedLabel(const v1::CycleReport& cycle) {
  std::string label;
  for (const std::string& text : CommittedTexts(cycle)) label += VisibleText(text);
  return Shortened(label, kCommittedCharacters);
}

// E.g. "1.42 ms, predicted 1.31 ms (-8 %)".
std::string VerifyTimes(const google::protobuf::Duration& measured,
                        const google::protobuf::Duration& predicted) {
  return absl::StrFormat("%.2f ms, predicted %.2f ms (%+.0f %%)", Milliseconds(measured),
                         Milliseconds(predicted),
                         PercentTooHigh(Milliseconds(predicted), Milliseconds(measured)));
}

// E.g. "2.45 ms: draft 0.81, tree 0.12, verify 1.42, commit 0.10". Leaves out stages without time.
std::string StageTimes(const v1::CycleReport& cycle) {
  double total = 0;
  std::string stages;
  for (const Stage& stage : StagesOf(cycle)) {
    total += stage.milliseconds;
    if (stage.milliseconds < 0.005) continue;
    absl::StrAppendFormat(&stages, "%s %s %.2f", stages.empty() ? ":" : ",", stage.name,
                          stage.milliseconds);
  }
  return absl::StrFormat("%.2f ms%s", total, stages);
}

std::string SourceTable(const v1::DraftTotals& totals) {
  std::string table =
      absl::StrFormat("  %-13s %8s %9s %9s\n", "source", "nodes", "accepted", "expected");
  v1::DraftTotals::Source sum;
  const auto append = [&table](const char* name, const v1::DraftTotals::Source& source) {
    absl::StrAppendFormat(&table, "  %-13s %8d %9d %9.1f\n", name, source.nodes(),
                          source.accepted(), source.expected());
  };
  for (const v1::DraftTotals::Source& source : totals.sources()) {
    append(SourceName(source.source()), source);
    sum.set_nodes(sum.nodes() + source.nodes());
    sum.set_accepted(sum.accepted() + source.accepted());
    sum.set_expected(sum.expected() + source.expected());
  }
  append("all", sum);
  return table;
}

std::string ReasonLines(const v1::DraftTotals& totals) {
  std::vector<std::pair<uint32_t, std::string>> reasons;
  for (const auto& [reason, cycles] : totals.budget_reasons()) reasons.emplace_back(cycles, reason);
  std::sort(reasons.rbegin(), reasons.rend());
  std::string lines;
  for (const auto& [cycles, reason] : reasons) {
    absl::StrAppendFormat(&lines, "  %-13s %8s  %s\n", VisibleText(reason), Count(cycles, "cycle"),
                          BudgetReasonMeaning(reason));
  }
  return lines;
}

}  // namespace

void RequestExplanation(v1::GenerateRequest* request) {
  request->mutable_output()->set_trees(true);
  request->mutable_output()->set_totals(true);
}

std::string BudgetReasonMeaning(absl::string_view reason) {
  static constexpr std::pair<absl::string_view, const char*> kMeanings[] = {
      {"policy", "the policy names this size"},
      {"cost", "the next node, a draft or planning would take more time than it saves"},
      {"confidence", "no other candidate was likely enough"},
      {"request_limit", "the request's max_tree_nodes allows no more nodes"},
      {"server_limit", "--max_tree_nodes of the server"},
      {"rows", "the rows of one forward"},
      {"share", "other requests have the other rows of the forward"},
      {"length", "the context, or the tokens that are left"},
      {"exploration", "the cycle only finds out what drafts or plain decoding bring"},
      {"exhausted", "there were no further candidates"},
      {"no_draft", "the drafter failed, was late, or had no prediction"}};
  for (const auto& [name, meaning] : kMeanings) {
    if (name == reason) return meaning;
  }
  return VisibleText(reason);
}

double PercentTooHigh(double predicted, double measured) {
  // Adding 0 turns -0 into 0.
  return measured > 0 ? std::round(100 * (predicted - measured) / measured) + 0.0 : 0;
}

std::vector<std::string> CommittedTexts(const v1::CycleReport& cycle) {
  std::vector<std::string> texts;
  if (!cycle.has_verified_tree()) return texts;
  for (const v1::VerifiedTree::Node& node : cycle.verified_tree().nodes()) {
    if (node.accepted()) texts.push_back(node.text());
  }
  texts.push_back(cycle.verified_tree().next_text());
  // A stop condition may end the answer before the end of the accepted path.
  texts.resize(std::min<size_t>(texts.size(), cycle.committed_length()));
  return texts;
}

std::vector<Stage> StagesOf(const v1::CycleReport& cycle) {
  return {{"draft", Milliseconds(cycle.draft())},        {"tree", Milliseconds(cycle.tree())},
          {"queue", Milliseconds(cycle.verify_queue())}, {"verify", Milliseconds(cycle.verify())},
          {"commit", Milliseconds(cycle.commit())},      {"audit", Milliseconds(cycle.audit())},
          {"transfer", Milliseconds(cycle.transfer())}};
}

Explainer::Explainer(const v1::GenerateRequest& request, const TreeStyle& style, std::ostream* out)
    : style_(style), out_(out) {
  explanation_.request = request;
}

void Explainer::Print(const v1::GenerateResponse& event) {
  if (event.has_started()) {
    explanation_.started = event.started();
  } else if (event.has_delta() && event.delta().answer() == 0) {
    explanation_.answer += event.delta().text();
    for (const v1::CycleReport& cycle : event.delta().cycles()) {
      explanation_.cycles.push_back(cycle);
      PrintCycle(cycle);
    }
  } else if (event.has_finished() && event.finished().answer() == 0) {
    explanation_.finished = event.finished();
    PrintEnd();
  }
  out_->flush();
}

void Explainer::PrintCycle(const v1::CycleReport& cycle) {
  const std::string times = VerifyTimes(cycle.measured_verify(), cycle.predicted_verify());
  const std::string reason = VisibleText(cycle.budget_reason());
  *out_ << "cycle " << explanation_.cycles.size() << ": "
        << Count(cycle.committed_length(), "token") << "  " << CommittedLabel(cycle);
  if (cycle.nodes() == 0) {
    *out_ << "  plain decoding (" << reason << "), verify " << times << "\n";
    return;
  }
  *out_ << "\n  budget  " << Count(cycle.nodes(), "node") << " (" << reason << ": "
        << BudgetReasonMeaning(cycle.budget_reason()) << ")\n  verify  " << times;
  if (cycle.share() < 0.995) {
    *out_ << absl::StrFormat(" for %s, %.0f %% of them for this request",
                             Count(cycle.rows(), "row"), 100 * cycle.share());
  }
  *out_ << "\n  cycle   " << StageTimes(cycle) << "\n"
        << DrawTree(cycle.verified_tree(), style_) << "\n";
}

void Explainer::PrintEnd() {
  const v1::Finished& finished = explanation_.finished;
  const v1::SpeculationStats& stats = finished.speculation();
  const v1::DraftTotals& totals = finished.totals();
  const double seconds = std::max(1e-9, Milliseconds(finished.timings().decode()) / 1e3);
  // A drawn tree ends with an empty line, a plain cycle does not.
  const bool is_plain = !explanation_.cycles.empty() && explanation_.cycles.back().nodes() == 0;
  *out_ << (is_plain ? "\n" : "") << "answer:\n" << PrintableText(explanation_.answer) << "\n\n";
  *out_ << absl::StrFormat("totals: %s in %s (policy %s), %.2f tokens per cycle, %.1f tokens/s\n",
                           Count(finished.usage().completion_tokens(), "token"),
                           Count(stats.cycles(), "cycle"), VisibleText(stats.policy()),
                           stats.mean_committed_length(),
                           finished.usage().completion_tokens() / seconds);
  *out_ << SourceTable(totals) << ReasonLines(totals) << "  verify  "
        << VerifyTimes(totals.measured_verify(), totals.predicted_verify())
        << absl::StrFormat("; median error of a cycle %.0f %%\n",
                           100 * stats.verify_prediction_error_median());
}

}  // namespace bastion
