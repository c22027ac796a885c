#include "tools/bench/prompts.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/conversation.h"
#include "tools/bench/prompt_text.h"

namespace bastion {
namespace {

using nlohmann::json;

constexpr int64_t kMaxToken = std::numeric_limits<TokenId>::max();

// The "token_ids" of a line.
absl::StatusOr<std::vector<TokenId>> ParseTokenIds(const json& ids) {
  std::vector<TokenId> tokens;
  for (const auto& id : ids) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxToken) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids must be integers from 0 to ", kMaxToken));
    }
    tokens.push_back(id.get<TokenId>());
  }
  return tokens;
}

// The string at `key` of `object`. nullopt if it is no string.
std::optional<std::string> StringAt(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// The "messages" or "turns" of a line.
absl::StatusOr<Conversation> ParseConversation(const json& object, const json& defaults) {
  Conversation conversation;
  json arguments = defaults;
  if (const auto own = object.find("template_args"); own != object.end()) {
    if (!own->is_object()) return absl::InvalidArgumentError("template_args must be an object");
    arguments.update(*own);
  }
  conversation.template_args = arguments.dump();
  if (object.contains("messages")) {
    for (const json& entry : object["messages"]) {
      if (!entry.is_object()) break;
      const auto role = StringAt(entry, "role"), content = StringAt(entry, "content");
      if (!role || !content) break;
      conversation.messages.push_back({*role, *content});
    }
    if (conversation.messages.empty() ||
        conversation.messages.size() != object["messages"].size()) {
      return absl::InvalidArgumentError(
          R"(messages must be a list of {"role": "…", "content": "…"} with at least one element)");
    }
    return conversation;
  }
  for (const json& turn : object["turns"]) {
    if (!turn.is_string()) return absl::InvalidArgumentError("turns must be a list of strings");
    conversation.later_turns.push_back(turn.get<std::string>());
  }
  if (conversation.later_turns.empty()) return absl::InvalidArgumentError("turns is empty");
  conversation.messages = {{"user", conversation.later_turns.front()}};
  conversation.later_turns.erase(conversation.later_turns.begin());
  return conversation;
}

// Parses the lines of a file of prompts.
class PromptParser {
 public:
  // `defaults`: a JSON object, the variables of the chat template that all lines have.
  PromptParser(const std::string& folder, json defaults)
      : text_(folder), defaults_(std::move(defaults)) {}

  // Sets the tokens and the conversation of `prompt`.
  absl::Status ParseContent(const json& object, BenchPrompt* prompt) {
    if (const auto text = StringAt(object, "text")) {
      ASSIGN_OR_RETURN(prompt->tokens, text_.Encode(*text));
    } else if (object.contains("token_ids") && object["token_ids"].is_array()) {
      ASSIGN_OR_RETURN(prompt->tokens, ParseTokenIds(object["token_ids"]));
    } else if (object.contains("messages") || object.contains("turns")) {
      ASSIGN_OR_RETURN(Conversation conversation, ParseConversation(object, defaults_));
      ASSIGN_OR_RETURN(prompt->tokens,
                       text_.EncodeChat(conversation.messages, conversation.template_args));
      if (!conversation.later_turns.empty()) {
        prompt->conversation = std::make_shared<const Conversation>(std::move(conversation));
      }
    }
    if (prompt->tokens.empty()) return absl::InvalidArgumentError("the prompt has no tokens");
    return absl::OkStatus();
  }

 private:
  PromptText text_;
  const json defaults_;
};

absl::StatusOr<BenchPrompt> ParsePrompt(const json& object, PromptParser& parser) {
  const auto id = object.is_object() ? StringAt(object, "id") : std::nullopt;
  if (!id.has_value()) {
    return absl::InvalidArgumentError(
        "must be a JSON object with \"id\" and \"text\", \"token_ids\", \"messages\" or \"turns\"");
  }
  BenchPrompt prompt = {*id, {}};
  prompt.dataset = StringAt(object, "dataset").value_or("");
  RETURN_IF_ERROR(parser.ParseContent(object, &prompt));
  return prompt;
}

// The prompt of a trace line: its own, or the one of `prompts` with its id.
absl::StatusOr<BenchPrompt> TracedPrompt(const json& object, PromptParser& parser,
                                         const std::vector<BenchPrompt>& prompts) {
  const std::string id = StringAt(object, "id").value_or("");
  if (object.contains("text") || object.contains("token_ids")) {
    BenchPrompt prompt = {id, {}};
    RETURN_IF_ERROR(parser.ParseContent(object, &prompt));
    return prompt;
  }
  for (const BenchPrompt& prompt : prompts) {
    if (prompt.id == id) return prompt;
  }
  return absl::InvalidArgumentError(absl::StrCat("no prompt of --prompts has the id \"", id, "\""));
}

absl::StatusOr<TracedArrival> ParseArrival(const json& object, PromptParser& parser,
                                           const std::vector<BenchPrompt>& prompts) {
  if (!object.is_object() || !object.contains("at_seconds") || !object["at_seconds"].is_number() ||
      object["at_seconds"].get<double>() < 0) {
    return absl::InvalidArgumentError(
        "must be a JSON object with \"at_seconds\" of at least 0 and a prompt");
  }
  TracedArrival arrival;
  arrival.at_seconds = object["at_seconds"].get<double>();
  ASSIGN_OR_RETURN(arrival.prompt, TracedPrompt(object, parser, prompts));
  if (!object.contains("max_new_tokens")) return arrival;
  const json& limit = object["max_new_tokens"];
  if (!limit.is_number_integer() || limit.get<int64_t>() < 1 || limit.get<int64_t>() > 1'000'000) {
    return absl::InvalidArgumentError("max_new_tokens must be an integer from 1 to 1000000");
  }
  arrival.max_new_tokens = limit.get<int>();
  return arrival;
}

// The prompts by id. A report names prompts by their ids.
class UniquePrompts {
 public:
  // INVALID_ARGUMENT if another prompt has this id.
  absl::Status Add(const BenchPrompt& prompt) {
    if (tokens_.try_emplace(prompt.id, prompt.tokens).first->second == prompt.tokens) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("another prompt has the id \"", prompt.id, "\", too; give it its own id"));
  }

 private:
  std::map<std::string, std::vector<TokenId>> tokens_;
};

// Calls `parse` with the JSON of every line that is not empty. `flag` is the flag that names the
// file.
absl::Status ForEachLine(const std::string& flag, const std::string& file,
                         absl::FunctionRef<absl::Status(const json&)> parse) {
  std::ifstream stream(file);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat(flag, ": cannot read ", file, "; check that the file exists"));
  }
  int number = 0, found = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty()) continue;
    ++found;
    const absl::Status parsed = parse(json::parse(line, nullptr, /*allow_exceptions=*/false));
    if (!parsed.ok()) return Annotate(parsed, absl::StrCat(file, ":", number));
  }
  if (found > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ": the file has no prompts"));
}

}  // namespace

absl::StatusOr<std::vector<BenchPrompt>> LoadPrompts(const std::string& file,
                                                     const std::string& target_folder,
                                                     const std::string& template_args) {
  json defaults = json::parse(template_args, nullptr, /*allow_exceptions=*/false);
  if (!defaults.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("--template_args is ", template_args,
                                                   "; it must be a JSON object, e.g. ",
                                                   R"({"enable_thinking": false})"));
  }
  PromptParser parser(target_folder, std::move(defaults));
  UniquePrompts unique;
  std::vector<BenchPrompt> prompts;
  RETURN_IF_ERROR(ForEachLine("--prompts", file, [&](const json& object) -> absl::Status {
    ASSIGN_OR_RETURN(prompts.emplace_back(), ParsePrompt(object, parser));
    return unique.Add(prompts.back());
  }));
  return prompts;
}

absl::StatusOr<std::vector<TracedArrival>> LoadArrivals(const std::string& file,
                                                        const std::string& target_folder,
                                                        const std::vector<BenchPrompt>& prompts) {
  PromptParser parser(target_folder, json::object());
  UniquePrompts unique;
  std::vector<TracedArrival> arrivals;
  for (const BenchPrompt& prompt : prompts) RETURN_IF_ERROR(unique.Add(prompt));
  RETURN_IF_ERROR(ForEachLine("--arrivals", file, [&](const json& object) -> absl::Status {
    ASSIGN_OR_RETURN(TracedArrival arrival, ParseArrival(object, parser, prompts));
    if (arrival.prompt.id.empty()) arrival.prompt.id = absl::StrCat("arrival-", arrivals.size());
    arrivals.push_back(std::move(arrival));
    return unique.Add(arrivals.back().prompt);
  }));
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const auto& a, const auto& b) { return a.at_seconds < b.at_seconds; });
  return arrivals;
}

std::vector<BenchPrompt> Resized(const std::vector<BenchPrompt>& prompts, int length) {
  std::vector<BenchPrompt> resized = prompts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    // From the last token to the first.
    std::vector<TokenId> reversed;
    for (size_t at = i; reversed.size() < static_cast<size_t>(length);
         at = (at + prompts.size() - 1) % prompts.size()) {
      reversed.insert(reversed.end(), prompts[at].tokens.rbegin(), prompts[at].tokens.rend());
    }
    reversed.resize(length);
    resized[i].tokens.assign(reversed.rbegin(), reversed.rend());
  }
  return resized;
}

std::vector<BenchPrompt> SyntheticPrompts(int count, int vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  std::vector<BenchPrompt> prompts;
  for (int i = 0; i < count; ++i) {
    BenchPrompt& prompt = prompts.emplace_back();
    prompt.id = absl::StrCat("synthetic-", i);
    const int length = 2 + below(39);
    // Every third prompt is random. The others repeat a phrase of up to four tokens.
    const int phrase = i % 3 == 0 ? length : 1 + below(4);
    for (int t = 0; t < length; ++t) {
      prompt.tokens.push_back(t < phrase ? below(vocabulary) : prompt.tokens[t - phrase]);
    }
  }
  return prompts;
}

}  // namespace bastion
