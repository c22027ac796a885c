#include "orchestrator/console/console_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "orchestrator/observe/named_stages.h"

namespace bastion {
namespace {

using nlohmann::json;

// Nodes of a tree that are sent. The first nodes of a tree are the best ones.
constexpr int kShownNodes = 256;
// The rate is that of the last intervals that have ended.
constexpr int kRateIntervals = 4;
constexpr const char* kSourceNames[kNodeSources] = {"draft", "table", "request", "learned"};
constexpr const char* kStateNames[] = {"prefill", "decoding", "done", "failed"};

// Three digits after the point.
double Rounded(double value) { return std::round(1e3 * value) / 1e3; }
double Milliseconds(absl::Duration time) { return Rounded(absl::ToDoubleMilliseconds(time)); }

// Null if there is nothing to divide by.
json Ratio(double value, double by) { return by > 0 ? json(Rounded(value / by)) : json(); }

std::string Dump(const json& value) {
  // Names that clients state may be cut inside a character.
  return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}
std::string Line(const json& value) { return absl::StrCat(Dump(value), "\n"); }

// Each field as a list over the cycles.
json Cycles(const std::vector<ConsoleCycle>& cycles) {
  json lists = {{"number", json::array()}};
  for (const ConsoleCycle& cycle : cycles) {
    lists["number"].push_back(cycle.number);
    lists["mode"].push_back(kCycleModeNames[static_cast<size_t>(cycle.mode)]);
    for (const NamedStage& stage : kStages) {
      lists[absl::StrCat(stage.name, "_ms")].push_back(Milliseconds(cycle.stages.*stage.time));
    }
    lists["predicted_verify_ms"].push_back(Milliseconds(cycle.predicted_verify));
    lists["requests"].push_back(cycle.requests);
    lists["rows"].push_back(cycle.rows);
    lists["prompt_rows"].push_back(cycle.prompt_rows);
    lists["nodes"].push_back(cycle.nodes);
    lists["tokens"].push_back(cycle.tokens);
  }
  return lists;
}

// The last minute.
json History(const std::vector<ConsoleInterval>& intervals) {
  std::array<int64_t, ConsoleInterval::kLengths> lengths = {};
  json tokens = json::array(), speedups = json::array(), means = json::array();
  double sum = 0, request_cycles = 0, recent = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const ConsoleInterval& interval = intervals[i];
    tokens.push_back(interval.tokens);
    const double spent = absl::ToDoubleSeconds(interval.spent);
    speedups.push_back(Ratio(absl::ToDoubleSeconds(interval.plain), spent));
    means.push_back(Ratio(interval.tokens, interval.request_cycles));
    for (size_t k = 0; k < lengths.size(); ++k) lengths[k] += interval.lengths[k];
    sum += interval.tokens;
    request_cycles += interval.request_cycles;
    const size_t age = intervals.size() - 1 - i;
    if (age >= 1 && age <= kRateIntervals) recent += interval.tokens;
  }
  const double seconds = absl::ToDoubleSeconds(ConsoleFeed::kInterval);
  return {{"interval_s", seconds},
          {"tokens", tokens},
          {"speedup", speedups},
          {"committed_length", means},
          {"committed_lengths", lengths},
          {"mean_committed_length", Ratio(sum, request_cycles)},
          {"tokens_per_second", Rounded(recent / (kRateIntervals * seconds))}};
}

json Tree(const VerifiedTree& verified, const hub::Tokenizer* tokenizer) {
  const DraftTree& tree = verified.tree;
  const int shown = std::min(tree.nodes(), kShownNodes);
  json parents = json::array(), probabilities = json::array(), sources = json::array();
  for (NodeIndex i = 1; i <= shown; ++i) {
    parents.push_back(tree.parent(i).value());
    probabilities.push_back(Rounded(std::exp(tree.log_score(i))));
    sources.push_back(kSourceNames[static_cast<size_t>(verified.sources[i - 1])]);
  }
  json accepted = json::array();
  for (const NodeIndex i : verified.accepted) {
    if (i <= shown) accepted.push_back(i.value());
  }
  json out = {{"nodes", tree.nodes()},
              {"parents", parents},
              {"probabilities", probabilities},
              {"sources", sources},
              {"accepted", accepted}};
  if (tokenizer == nullptr) return out;
  const auto text = [&](TokenId token) {
    return tokenizer->Decode({token}, /*skip_special=*/false).value_or("");
  };
  for (NodeIndex i = 0; i <= shown; ++i) out["texts"].push_back(text(tree.token(i)));
  out["next_text"] = text(verified.next);
  return out;
}

json Requests(const std::vector<ConsoleRequest>& requests, const hub::Tokenizer* tokenizer) {
  json out = json::array();
  for (const ConsoleRequest& request : requests) {
    json entry = {
        {"id", request.id},
        {"client", request.client},
        {"policy", request.policy},
        {"state", kStateNames[static_cast<size_t>(request.state)]},
        {"prompt_tokens", request.prompt_tokens},
        {"prompt_left", request.prompt_left},
        {"output_tokens", request.output_tokens},
        {"max_tokens", request.max_tokens},
        {"cycles", request.cycles},
        {"tokens_per_second", Ratio(request.output_tokens, absl::ToDoubleSeconds(request.decode))},
        {"idle_ms", Milliseconds(request.idle)}};
    if (request.tree != nullptr) {
      entry["tree"] = Tree(*request.tree, tokenizer);
      entry["tree"]["cycle"] = request.tree_cycle;
    }
    out.push_back(std::move(entry));
  }
  return out;
}

json Service(const SchedulerStats& stats) {
  const int page = std::max(stats.target.page_tokens, 1);
  return {{"ready", stats.ready},
          {"device", stats.target.device},
          {"drafter", stats.drafter},
          {"drafts_succeed", stats.drafts_succeed},
          {"running", stats.running},
          {"waiting", stats.waiting},
          {"parked", stats.parked},
          {"preemptions", stats.preemptions},
          {"kv_pages", stats.target.kv_tokens / page},
          {"kv_pages_free", stats.free_kv_tokens / page},
          {"kv_page_tokens", stats.target.page_tokens}};
}

absl::Status JsonFieldError(const std::string& field, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
}

absl::Status SetField(const std::string& field, const json& value, v1::GenerateRequest* request) {
  if (field == "prompt") {
    if (!value.is_string()) return JsonFieldError(field, "must be a string");
    request->set_text(value.get<std::string>());
  } else if (field == "message") {
    if (!value.is_string()) return JsonFieldError(field, "must be a string");
    v1::ChatMessage* const message = request->mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(value.get<std::string>());
  } else if (field == "policy") {
    if (!value.is_string()) return JsonFieldError(field, "must be a string");
    request->mutable_speculation()->set_policy(value.get<std::string>());
  } else if (field == "max_new_tokens") {
    if (!value.is_number_unsigned() || value == 0 ||
        value.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return JsonFieldError(field, "must be an integer from 1 to 4294967295");
    }
    request->mutable_stop()->set_max_tokens(value.get<uint32_t>());
  } else if (field == "temperature") {
    // A larger number may be too large for a float.
    if (!value.is_number() || std::abs(value.get<double>()) > 1e6) {
      return JsonFieldError(field, "must be a number from 0 to 100");
    }
    request->mutable_sampling()->set_temperature(value.get<float>());
  } else {
    return JsonFieldError(
        field.substr(0, ConsoleFeed::kNameBytes),
        "is not a field; use prompt or message, policy, max_new_tokens and temperature");
  }
  return absl::OkStatus();
}

}  // namespace

std::string ConsoleStateJson(const ConsoleIdentity& identity, const ConsoleSnapshot& snapshot,
                             const SchedulerStats& stats) {
  const bool has_cycle = snapshot.idle != absl::InfiniteDuration();
  return Dump({{"run", identity.run},
               {"version", kVersion},
               {"model", identity.model},
               {"policy", identity.policy},
               {"has_chat", identity.has_chat},
               {"shows_text", identity.tree_tokenizer != nullptr},
               {"idle_ms", has_cycle ? json(Milliseconds(snapshot.idle)) : json()},
               {"speedup", Rounded(snapshot.speedup)},
               {"service", Service(stats)},
               {"history", History(snapshot.intervals)},
               {"cycles", Cycles(snapshot.cycles)},
               {"requests", Requests(snapshot.requests, identity.tree_tokenizer)}});
}

absl::StatusOr<v1::GenerateRequest> ParseConsolePrompt(const std::string& body) {
  const json fields = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  v1::GenerateRequest request;
  if (fields.contains("prompt") && fields.contains("message")) {
    return JsonFieldError("message", "cannot stand beside prompt; send one of them");
  }
  for (const auto& [field, value] : fields.items()) {
    RETURN_IF_ERROR(SetField(field, value, &request));
  }
  return request;
}

std::string ConsoleStartedLine(const PreparedRequest& request) {
  return Line(
      {{"started", {{"id", request.request_id}, {"prompt_tokens", request.decode.prompt.size()}}}});
}

std::string ConsoleCycleLines(const OutputDelta& delta, hub::Detokenizer* detokenizer) {
  std::string lines;
  auto next = delta.tokens.begin();
  for (const CycleRecord& cycle : delta.cycles) {
    const auto end = next + cycle.committed_length;
    std::string text = detokenizer->Push(std::vector<TokenId>(next, end));
    next = end;
    if (delta.end && next == delta.tokens.end()) text += detokenizer->FlushIncomplete();
    lines += Line({{"text", text},
                   {"tokens", cycle.committed_length},
                   {"nodes", cycle.nodes},
                   {"accepted", cycle.accepted},
                   {"reason", BudgetReasonName(cycle.reason)},
                   {"ms", Milliseconds(cycle.stages.total())}});
  }
  if (!delta.end) return lines;
  const OutputEnd& end = *delta.end;
  return lines + Line({{"finished",
                        {{"reason", FinishReasonName(end.reason)},
                         {"tokens", end.completion_tokens},
                         {"cycles", end.cycles.size()},
                         {"policy", end.policy},
                         {"seed", absl::StrCat(end.seed)},
                         {"first_token_ms", Milliseconds(end.times.first_token)},
                         {"tokens_per_second", Ratio(end.completion_tokens,
                                                     absl::ToDoubleSeconds(end.times.decode))}}}});
}

std::string ConsoleErrorLine(const absl::Status& status) {
  return Line({{"error",
                {{"code", absl::StatusCodeToString(status.code())},
                 {"message", std::string(status.message())}}}});
}

}  // namespace bastion
