#include "client/bench/prompts.h"

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
#include "common/hub/tokenizer.h"

namespace bastion {
namespace {

using nlohmann::json;

constexpr int64_t kMaxToken = std::numeric_limits<TokenId>::max();

// Converts text to tokens. Loads the tokenizer at the first use, because prompts may be token ids.
class LazyTokenizer {
 public:
  explicit LazyTokenizer(const std::string& folder) : folder_(folder) {}
  absl::StatusOr<std::vector<TokenId>> Encode(const std::string& text) {
    if (!tokenizer_) {
      ASSIGN_OR_RETURN(tokenizer_, hub::Tokenizer::Load(folder_));
    }
    return tokenizer_->Encode(text, true);
  }

 private:
  const std::string folder_;
  std::optional<hub::Tokenizer> tokenizer_;
};

// The tokens in "text" or "token_ids".
absl::StatusOr<std::vector<TokenId>> ParseTokens(const json& object, LazyTokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  if (object.contains("text") && object["text"].is_string()) {
    ASSIGN_OR_RETURN(tokens, tokenizer.Encode(object["text"].get<std::string>()));
  } else if (object.contains("token_ids") && object["token_ids"].is_array()) {
    for (const auto& id : object["token_ids"]) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxToken) {
        return absl::InvalidArgumentError(
            absl::StrCat("token_ids must be integers from 0 to ", kMaxToken));
      }
      tokens.push_back(id.get<TokenId>());
    }
  }
  if (tokens.empty()) return absl::InvalidArgumentError("the prompt has no tokens");
  return tokens;
}

absl::StatusOr<BenchPrompt> ParsePrompt(const json& object, LazyTokenizer& tokenizer) {
  if (!object.is_object() || !object.contains("id") || !object["id"].is_string()) {
    return absl::InvalidArgumentError(
        "must be a JSON object with \"id\" and \"text\" or \"token_ids\"");
  }
  BenchPrompt prompt = {object["id"].get<std::string>(), {}};
  ASSIGN_OR_RETURN(prompt.tokens, ParseTokens(object, tokenizer));
  return prompt;
}

// The prompt of a trace line: its own, or the one of `prompts` with its id.
absl::StatusOr<BenchPrompt> TracedPrompt(const json& object, LazyTokenizer& tokenizer,
                                         const std::vector<BenchPrompt>& prompts) {
  const std::string id =
      object.contains("id") && object["id"].is_string() ? object["id"].get<std::string>() : "";
  if (object.contains("text") || object.contains("token_ids")) {
    BenchPrompt prompt = {id, {}};
    ASSIGN_OR_RETURN(prompt.tokens, ParseTokens(object, tokenizer));
    return prompt;
  }
  for (const BenchPrompt& prompt : prompts) {
    if (prompt.id == id) return prompt;
  }
  return absl::InvalidArgumentError(absl::StrCat("no prompt of --prompts has the id \"", id, "\""));
}

absl::StatusOr<TracedArrival> ParseArrival(const json& object, LazyTokenizer& tokenizer,
                                           const std::vector<BenchPrompt>& prompts) {
  if (!object.is_object() || !object.contains("at_seconds") || !object["at_seconds"].is_number() ||
      object["at_seconds"].get<double>() < 0) {
    return absl::InvalidArgumentError(
        "must be a JSON object with \"at_seconds\" of at least 0 and a prompt");
  }
  TracedArrival arrival;
  arrival.at_seconds = object["at_seconds"].get<double>();
  ASSIGN_OR_RETURN(arrival.prompt, TracedPrompt(object, tokenizer, prompts));
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
                                                     const std::string& target_folder) {
  LazyTokenizer tokenizer(target_folder);
  UniquePrompts unique;
  std::vector<BenchPrompt> prompts;
  RETURN_IF_ERROR(ForEachLine("--prompts", file, [&](const json& object) -> absl::Status {
    ASSIGN_OR_RETURN(prompts.emplace_back(), ParsePrompt(object, tokenizer));
    return unique.Add(prompts.back());
  }));
  return prompts;
}

absl::StatusOr<std::vector<TracedArrival>> LoadArrivals(const std::string& file,
                                                        const std::string& target_folder,
                                                        const std::vector<BenchPrompt>& prompts) {
  LazyTokenizer tokenizer(target_folder);
  UniquePrompts unique;
  std::vector<TracedArrival> arrivals;
  for (const BenchPrompt& prompt : prompts) RETURN_IF_ERROR(unique.Add(prompt));
  RETURN_IF_ERROR(ForEachLine("--arrivals", file, [&](const json& object) -> absl::Status {
    ASSIGN_OR_RETURN(TracedArrival arrival, ParseArrival(object, tokenizer, prompts));
    if (arrival.prompt.id.empty()) arrival.prompt.id = absl::StrCat("arrival-", arrivals.size());
    arrivals.push_back(std::move(arrival));
    return unique.Add(arrivals.back().prompt);
  }));
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const auto& a, const auto& b) { return a.at_seconds < b.at_seconds; });
  return arrivals;
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
