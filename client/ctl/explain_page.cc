#include "client/ctl/explain_page.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "bastion/durations.h"
#include "client/ctl/printable_text.h"
#include "client/ctl/tree_drawing.h"
#include "embedded/explain_page.css.h"
#include "embedded/explain_page.html.h"
#include "embedded/explain_page.js.h"

namespace bastion {
namespace {

using nlohmann::json;

constexpr size_t kMaxNodes = 256;
// U+FFFD: the token has only a part of a character.
constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// Splits the answer into the parts that the cycles committed. A character that several tokens share
// belongs to the cycle of the token after it, because the texts of its tokens do not tell its
// bytes. A token that is not in the answer, such as a stop token, adds nothing.
std::vector<std::string> AnswerParts(const Explanation& explanation) {
  absl::string_view rest = explanation.answer;
  size_t unknown =
      0;  // `rest` begins with at most this many bytes of tokens with a shared character.
  std::vector<std::string> parts;
  for (const v1::CycleReport& cycle : explanation.cycles) {
    std::string& part = parts.emplace_back();
    for (const std::string& text : CommittedTexts(cycle)) {
      if (absl::StrContains(text, kReplacement)) {
        unknown += text.size();
        continue;
      }
      const size_t at = rest.substr(0, unknown + text.size()).find(text);
      if (text.empty() || at == absl::string_view::npos) continue;
      part += PrintableText(rest.substr(0, at + text.size()));
      rest.remove_prefix(at + text.size());
      unknown = 0;
    }
  }
  if (!parts.empty()) parts.back() += PrintableText(rest);
  return parts;
}

// Each node is [parent, label, token id, path probability, source, accepted]. A parent is an index
// into the array, or -1 for the root.
json NodesJson(const v1::VerifiedTree& tree) {
  const std::vector<int> shown = NodesToShow(tree, kMaxNodes);
  std::map<int, int> positions = {{-1, -1}};
  json nodes = json::array();
  for (const int index : shown) {
    const v1::VerifiedTree::Node& node = tree.nodes(index);
    positions.emplace(index, static_cast<int>(nodes.size()));
    nodes.push_back({positions.at(ParentOf(tree, index)), TokenLabel(node.text(), node.token_id()),
                     node.token_id(), PathProbability(node), SourceName(node.source()),
                     node.accepted()});
  }
  return nodes;
}

json CycleJson(const v1::CycleReport& cycle, const std::string& part) {
  const v1::VerifiedTree& tree = cycle.verified_tree();
  json stages = json::array();
  for (const Stage& stage : StagesOf(cycle)) stages.push_back({stage.name, stage.milliseconds});
  return {{"part", part},
          {"nodes", NodesJson(tree)},
          {"budget", cycle.nodes()},
          {"committed", cycle.committed_length()},
          {"reason", VisibleText(cycle.budget_reason())},
          {"why", BudgetReasonMeaning(cycle.budget_reason())},
          {"rows", cycle.rows()},
          {"share", cycle.share()},
          {"predicted", Milliseconds(cycle.predicted_verify())},
          {"measured", Milliseconds(cycle.measured_verify())},
          {"stages", stages},
          {"root", {TokenLabel(tree.root_text(), tree.root_token_id()), tree.root_token_id()}},
          {"next", {TokenLabel(tree.next_text(), tree.next_token_id()), tree.next_token_id()}}};
}

json TotalsJson(const v1::Finished& finished) {
  const v1::DraftTotals& totals = finished.totals();
  json sources = json::array(), reasons = json::array();
  for (const v1::DraftTotals::Source& source : totals.sources()) {
    sources.push_back(
        {SourceName(source.source()), source.nodes(), source.accepted(), source.expected()});
  }
  for (const auto& [reason, cycles] : totals.budget_reasons()) {
    reasons.push_back({VisibleText(reason), cycles, BudgetReasonMeaning(reason)});
  }
  const v1::SpeculationStats& stats = finished.speculation();
  return {{"tokens", finished.usage().completion_tokens()},
          {"decode", Milliseconds(finished.timings().decode())},
          {"firstToken", Milliseconds(finished.timings().first_token())},
          {"policy", VisibleText(stats.policy())},
          {"meanCommitted", stats.mean_committed_length()},
          {"nodes", stats.draft_tokens()},
          {"accepted", stats.accepted_tokens()},
          {"medianError", stats.verify_prediction_error_median()},
          {"predicted", Milliseconds(totals.predicted_verify())},
          {"measured", Milliseconds(totals.measured_verify())},
          {"seed", std::to_string(finished.seed())},
          {"sources", sources},
          {"reasons", reasons}};
}

json ExplanationJson(const Explanation& explanation) {
  const std::vector<std::string> parts = AnswerParts(explanation);
  json cycles = json::array();
  for (size_t i = 0; i < explanation.cycles.size(); ++i) {
    cycles.push_back(CycleJson(explanation.cycles[i], parts[i]));
  }
  return {{"model", VisibleText(explanation.started.model())},
          {"prompt", PrintableText(explanation.request.text())},
          {"promptTokens", explanation.started.prompt_tokens()},
          {"temperature", explanation.request.sampling().temperature()},
          {"cycles", cycles},
          {"totals", TotalsJson(explanation.finished)}};
}

// JSON that no HTML parser can take for the end of its script element or the start of a comment.
std::string DataBlock(const Explanation& explanation) {
  const std::string text =
      ExplanationJson(explanation).dump(-1, ' ', false, json::error_handler_t::replace);
  return absl::StrReplaceAll(text, {{"<", "\\u003c"}});
}

}  // namespace

std::string ExplainPage(const Explanation& explanation, absl::string_view nonce) {
  return absl::StrReplaceAll(kExplainPage, {{"{{NONCE}}", nonce},
                                            {"{{STYLE}}", kExplainStyle},
                                            {"{{SCRIPT}}", kExplainScript},
                                            {"{{DATA}}", DataBlock(explanation)}});
}

}  // namespace bastion
