#include "tools/doctor/service_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "client/ctl/printable_text.h"
#include "tools/doctor/text_table.h"

namespace bastion::doctor {
namespace {

using nlohmann::json;

std::string Milliseconds(double seconds) { return absl::StrFormat("%.2f", 1e3 * seconds); }

std::string DrafterFact(const ServiceReport& report) {
  if (report.drafter.empty()) return "none";
  if (report.drafter_features.empty()) return report.drafter;
  return report.drafter + ", features " + report.drafter_features;
}

std::string Facts(const ServiceReport& report) {
  return PrintableText(absl::StrFormat(
      "target   %s on %s\n"
      "drafter  %s\n"
      "policy   %s\n"
      "limits   %.1f GB/s of memory, %.0f GFLOP/s; a forward of one row moves %.1f MB\n"
      "memory   %d tokens of KV cache, context of up to %d tokens, forwards of up to %d rows\n",
      report.model, report.device, DrafterFact(report), report.policy,
      report.bytes_per_second / 1e9, report.flops_per_second / 1e9,
      static_cast<double>(report.forward_bytes) / 1e6, report.kv_tokens, report.max_context,
      report.max_rows));
}

// A row per number of rows, a column per context.
std::string ForwardTable(const ServiceReport& report) {
  std::vector<std::vector<std::string>> table = {{"rows"}};
  int context = -1;
  size_t row = 0;
  for (const ForwardTime& forward : report.forwards) {
    if (forward.context != context) {
      context = forward.context;
      table[0].push_back(absl::StrFormat("after %d tokens", context));
      row = 0;
    }
    if (++row == table.size()) table.push_back({absl::StrFormat("%d", forward.rows)});
    table[row].push_back(
        absl::StrFormat("%.2f (%.0f %%)", 1e3 * forward.seconds, 100 * forward.share()));
  }
  return "\nForward of the target, in ms (and the share of the device's limits that it reaches)\n" +
         TextTable(table);
}

std::string Commits(const Speculation& way) {
  return absl::StrFormat("%.2f / %.2f", way.committed, way.break_even);
}

std::string SpeedupTable(const ServiceReport& report) {
  const RecordedPrompts& prompts = report.prompts;
  std::string text = absl::StrFormat(
      "\nExpected speedup over plain decoding, for %d %s of %.0f tokens and answers of %.0f "
      "tokens\n",
      prompts.requests, prompts.built_in ? "built-in prompts" : "prompts", prompts.prompt_tokens,
      prompts.output_tokens);
  std::vector<std::vector<std::string>> table = {
      {"requests", "plain ms", "draft ms", "with drafts", "draft-free", "decoding", "speedup"}};
  for (const Level& level : report.levels) {
    table.push_back({absl::StrFormat("%d", level.requests), Milliseconds(level.plain_seconds),
                     level.drafted.has_value() ? Milliseconds(level.draft_seconds) : "-",
                     level.drafted.has_value() ? Commits(*level.drafted) : "-",
                     Commits(level.draft_free), absl::StrFormat("%.2fx", level.decode_speedup),
                     absl::StrFormat("%.2fx", level.speedup)});
  }
  const Speculation& example = report.levels.front().draft_free;
  absl::StrAppendFormat(
      &(text += TextTable(table)),
      "  \"%s\": a cycle commits %.2f tokens of a request. Break-even with plain decoding: %.2f.\n"
      "  \"decoding\" is the speedup without the time for prompts, \"speedup\" that of whole "
      "requests.\n",
      Commits(example), example.committed, example.break_even);
  return text;
}

json ToJson(const Speculation& way) {
  return {
      {"threshold", way.threshold},
      {"nodes", way.nodes},
      {"committed", way.committed},
      {"cycle_seconds", way.cycle_seconds},
      {"break_even_committed", way.break_even},
      {"break_even_acceptance", way.nodes > 0 ? json((way.break_even - 1) / way.nodes) : json()},
      {"decode_speedup", way.speedup}};
}

json ToJson(const Level& level) {
  const Speculation* const best = level.best();
  return {{"requests", level.requests},
          {"plain_seconds", level.plain_seconds},
          {"draft_seconds", level.draft_seconds},
          {"planning_seconds", level.planning_seconds},
          {"drafted", level.drafted.has_value() ? ToJson(*level.drafted) : json()},
          {"draft_free", ToJson(level.draft_free)},
          {"best", best == nullptr             ? "plain"
                   : best == &level.draft_free ? "draft_free"
                                               : "drafted"},
          {"modeled_speedup", level.modeled_speedup},
          {"decode_speedup", level.decode_speedup},
          {"speedup", level.speedup}};
}

json ToJson(const ForwardTime& forward) {
  return {{"rows", forward.rows},
          {"context", forward.context},
          {"seconds", forward.seconds},
          {"roofline_seconds", forward.roofline_seconds},
          {"share_of_limits", forward.share()}};
}

}  // namespace

std::string ServiceText(const ServiceReport& report, const std::vector<std::string>& advice) {
  std::string text = Facts(report) + ForwardTable(report) + SpeedupTable(report) + "\nAdvice\n";
  for (const std::string& sentence : advice) text += PrintableText("  - " + sentence + "\n");
  return text;
}

std::string ServiceJson(const ServiceReport& report, const std::vector<std::string>& advice) {
  json levels = json::array(), forwards = json::array();
  for (const Level& level : report.levels) levels.push_back(ToJson(level));
  for (const ForwardTime& forward : report.forwards) forwards.push_back(ToJson(forward));
  const json object = {{"model", report.model},
                       {"device", report.device},
                       {"drafter", report.drafter},
                       {"drafter_features", report.drafter_features},
                       {"policy", report.policy},
                       {"forward_bytes", report.forward_bytes},
                       {"bytes_per_second", report.bytes_per_second},
                       {"flops_per_second", report.flops_per_second},
                       {"max_context", report.max_context},
                       {"max_rows", report.max_rows},
                       {"kv_tokens", report.kv_tokens},
                       {"other_requests", report.other_requests},
                       {"unreached_requests",
                        report.unreached_requests > 0 ? json(report.unreached_requests) : json()},
                       {"forwards", forwards},
                       {"prompts",
                        {{"built_in", report.prompts.built_in},
                         {"requests", report.prompts.requests},
                         {"left_out", report.prompts.left_out},
                         {"prompt_tokens", report.prompts.prompt_tokens},
                         {"output_tokens", report.prompts.output_tokens},
                         {"prefill_seconds", report.prompts.prefill_seconds},
                         {"plain_seconds", report.prompts.plain_seconds},
                         {"uses_table", report.prompts.uses_table}}},
                       {"levels", levels},
                       {"advice", advice}};
  // Invalid UTF-8 of a model's name must not throw.
  return object.dump(1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

}  // namespace bastion::doctor
