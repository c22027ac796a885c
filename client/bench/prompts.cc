#include "client/bench/prompts.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/tokenizer.h"

namespace bastion {
namespace {

absl::StatusOr<BenchPrompt> ParseLine(const std::string& line, const std::string& target_folder,
                                      std::optional<hub::Tokenizer>& tokenizer) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("id") || !object["id"].is_string()) {
    return absl::InvalidArgumentError(
        "must be a JSON object with \"id\" and \"text\" or \"token_ids\"");
  }
  BenchPrompt prompt;
  prompt.id = object["id"].get<std::string>();
  if (object.contains("text") && object["text"].is_string()) {
    if (!tokenizer) {
      ASSIGN_OR_RETURN(tokenizer, hub::Tokenizer::Load(target_folder));
    }
    ASSIGN_OR_RETURN(prompt.tokens, tokenizer->Encode(object["text"].get<std::string>(), true));
  } else if (object.contains("token_ids") && object["token_ids"].is_array()) {
    for (const auto& id : object["token_ids"]) {
      if (!id.is_number_integer()) return absl::InvalidArgumentError("token_ids must be integers");
      prompt.tokens.push_back(id.get<TokenId>());
    }
  }
  if (prompt.tokens.empty()) return absl::InvalidArgumentError("the prompt has no tokens");
  return prompt;
}

}  // namespace

absl::StatusOr<std::vector<BenchPrompt>> LoadPrompts(const std::string& file,
                                                     const std::string& target_folder) {
  std::ifstream stream(file);
  if (!stream) return absl::NotFoundError(absl::StrCat("--prompts: cannot read ", file));
  std::optional<hub::Tokenizer> tokenizer;
  std::vector<BenchPrompt> prompts;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty()) continue;
    absl::StatusOr<BenchPrompt> prompt = ParseLine(line, target_folder, tokenizer);
    if (!prompt.ok()) return Annotate(prompt.status(), absl::StrCat(file, ":", number));
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty())
    return absl::InvalidArgumentError(absl::StrCat(file, ": the file has no prompts"));
  return prompts;
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
