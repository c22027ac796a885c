#include "common/hub/named_tokens.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::hub {
namespace {

using nlohmann::json;

constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};
constexpr std::pair<const char*, const char*> kIds[] = {{"bos_token", "bos_token_id"},
                                                        {"eos_token", "eos_token_id"}};

// A token is a string, or an object with the string in "content".
std::optional<std::string> TokenText(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return std::nullopt;
  const auto content = token.find("content");
  if (content == token.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

// The added token of tokenizer.json with `id`.
std::optional<std::string> AddedToken(const JsonObject& tokenizer, int id) {
  const json* added = tokenizer.Find("added_tokens");
  if (added == nullptr || !added->is_array()) return std::nullopt;
  for (const json& token : *added) {
    if (token.is_object() && token.value("id", json()) == id) return TokenText(token);
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<bool>> Flag(const JsonObject& config, const char* key) {
  if (!config.Has(key)) return std::nullopt;
  ASSIGN_OR_RETURN(const bool value, config.Get<bool>(key));
  return std::optional<bool>(value);
}

}  // namespace

absl::StatusOr<NamedTokens> NamedTokens::Read(const std::string& folder,
                                              const JsonObject& tokenizer_config) {
  NamedTokens special;
  ASSIGN_OR_RETURN(const JsonObject map,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/special_tokens_map.json")));
  const auto names = [&](const char* name) {
    return tokenizer_config.json().contains(name) || map.json().contains(name);
  };
  for (const char* name : kNames) {
    // A null says that there is no such token.
    const JsonObject& file = tokenizer_config.json().contains(name) ? tokenizer_config : map;
    const json* token = file.Find(name);
    const auto text = token == nullptr ? std::nullopt : TokenText(*token);
    if (text) special.texts[name] = *text;
  }
  ASSIGN_OR_RETURN(special.add_bos, Flag(tokenizer_config, "add_bos_token"));
  ASSIGN_OR_RETURN(special.add_eos, Flag(tokenizer_config, "add_eos_token"));
  if (names("bos_token") && names("eos_token")) return special;
  ASSIGN_OR_RETURN(const JsonObject config,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/config.json")));
  ASSIGN_OR_RETURN(const JsonObject tokenizer,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/tokenizer.json")));
  for (const auto& [name, key] : kIds) {
    if (names(name)) continue;
    const auto ids = config.Integers(key);
    if (!ids.ok() || ids->empty()) continue;
    if (const auto text = AddedToken(tokenizer, ids->front())) special.texts[name] = *text;
  }
  return special;
}

}  // namespace bastion::hub
