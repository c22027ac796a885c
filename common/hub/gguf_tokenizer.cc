#include "common/hub/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/gguf_model.h"
#include "common/hub/sentence_pieces.h"

namespace bastion::hub {
namespace {

using Json = nlohmann::json;

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";
constexpr const char* kScores = "tokenizer.ggml.scores";

// Values of token_type.
constexpr int kUnknownToken = 2, kControlToken = 3, kUserToken = 4;

// Special tokens that end an answer in the models that have them.
constexpr std::string_view kEndTexts[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>",
                                          "<|end_of_text|>"};

// Splits numbers into their digits, or into runs of at most three digits, and words from the signs
// around them.
constexpr const char* kLlamaPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How a text is split before BPE. GPT-2's own pattern is a part of the byte-level step.
struct PreTokenizer {
  const char* name;          // tokenizer.ggml.pre
  const char* pattern;       // Null: GPT-2's.
  bool digits = false;       // Splits digits one by one first.
  bool composes = false;     // Normalizes to NFC first.
  bool whole_words = false;  // A word that is a token is never merged from parts.
  bool adds_bos = false;     // Unless the metadata says otherwise.
};

constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", nullptr},
    {"smollm", nullptr, /*digits=*/true},
    {"llama-bpe", kLlamaPattern, false, false, /*whole_words=*/true, /*adds_bos=*/true},
    {"llama3", kLlamaPattern, false, false, /*whole_words=*/true, /*adds_bos=*/true},
    {"smaug-bpe", kLlamaPattern},  // SmolLM3 has it.
    {"qwen2", kQwenPattern, false, /*composes=*/true}};

absl::StatusOr<const PreTokenizer*> ReadPreTokenizer(const JsonObject& metadata) {
  ASSIGN_OR_RETURN(const std::string name, metadata.Get<std::string>("tokenizer.ggml.pre"));
  std::string known;
  for (const PreTokenizer& pre : kPreTokenizers) {
    if (pre.name == name) return &pre;
    absl::StrAppend(&known, known.empty() ? "" : ", ", pre.name);
  }
  return absl::UnimplementedError(absl::StrCat(metadata.origin(),
                                               ": the pre-tokenizer 'tokenizer.ggml.pre' is '",
                                               name, "'; supported: ", known));
}

// The elements of an array, all of one type.
template <typename T>
absl::StatusOr<std::vector<T>> ReadArray(const JsonObject& metadata, const char* key,
                                         Json::value_t type) {
  const Json* const found = metadata.Find(key);
  if (found == nullptr) return metadata.KeyError(key, "is missing");
  if (!found->is_array()) return metadata.KeyError(key, "must be an array");
  std::vector<T> values;
  values.reserve(found->size());
  for (const Json& value : *found) {
    const bool fits = value.type() == type ||
                      (type == Json::value_t::number_integer && value.is_number_integer());
    if (!fits) return metadata.KeyError(key, "has elements of another type");
    values.push_back(value.get<T>());
  }
  return values;
}

absl::StatusOr<std::vector<std::string>> ReadTokens(const JsonObject& metadata) {
  return ReadArray<std::string>(metadata, kTokens, Json::value_t::string);
}

absl::StatusOr<std::vector<int>> ReadTypes(const JsonObject& metadata, size_t tokens) {
  if (!metadata.Has(kTypes)) return std::vector<int>(tokens, 1);
  ASSIGN_OR_RETURN(std::vector<int> types,
                   ReadArray<int>(metadata, kTypes, Json::value_t::number_integer));
  if (types.size() == tokens) return types;
  return metadata.KeyError(kTypes,
                           absl::StrCat("has ", types.size(), " elements for ", tokens, " tokens"));
}

// The text of the token that `key` names. Empty if there is no such key.
absl::StatusOr<std::string> TokenText(const JsonObject& metadata, const char* key,
                                      const std::vector<std::string>& tokens) {
  if (!metadata.Has(key)) return std::string();
  ASSIGN_OR_RETURN(const int id, metadata.Get<int>(key));
  if (id >= 0 && static_cast<size_t>(id) < tokens.size()) return tokens[id];
  return metadata.KeyError(key,
                           absl::StrCat("is ", id, ", but there are ", tokens.size(), " tokens"));
}

Json AddedTokens(const std::vector<std::string>& tokens, const std::vector<int>& types) {
  Json added = Json::array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool special = types[id] == kControlToken || types[id] == kUnknownToken;
    if (!special && types[id] != kUserToken) continue;
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

absl::StatusOr<Json> Vocabulary(const JsonObject& metadata,
                                const std::vector<std::string>& tokens) {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (vocabulary.emplace(tokens[id], id).second) continue;
    return metadata.KeyError(kTokens, absl::StrCat("contains '", tokens[id], "' twice"));
  }
  return vocabulary;
}

// Puts the token `bos` before a text.
absl::StatusOr<Json> AddingBos(const JsonObject& metadata, const std::vector<std::string>& tokens) {
  constexpr const char* kBos = "tokenizer.ggml.bos_token_id";
  ASSIGN_OR_RETURN(const std::string bos, TokenText(metadata, kBos, tokens));
  if (bos.empty()) return metadata.KeyError(kBos, "is missing, but a text must begin with it");
  ASSIGN_OR_RETURN(const int id, metadata.Get<int>(kBos));
  const Json first = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return Json{{"type", "TemplateProcessing"},
              {"single", {first, text("A", 0)}},
              {"pair", {first, text("A", 0), text("B", 1)}},
              {"special_tokens",
               {{bos, {{"id", bos}, {"ids", Json::array({id})}, {"tokens", Json::array({bos})}}}}}};
}

Json ByteLevelStep(bool splits) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", splits}};
}

Json PreTokenizerJson(const PreTokenizer& pre) {
  Json steps = Json::array();
  if (pre.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (pre.pattern != nullptr) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pre.pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(ByteLevelStep(pre.pattern == nullptr));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

absl::StatusOr<bool> AddsBos(const JsonObject& metadata, bool fallback) {
  return metadata.Get<bool>("tokenizer.ggml.add_bos_token", fallback);
}

absl::StatusOr<Json> ByteLevelBpe(const JsonObject& metadata,
                                  const std::vector<std::string>& tokens, Json tokenizer) {
  ASSIGN_OR_RETURN(const PreTokenizer* pre, ReadPreTokenizer(metadata));
  ASSIGN_OR_RETURN(const std::vector<std::string> merges,
                   ReadArray<std::string>(metadata, kMerges, Json::value_t::string));
  ASSIGN_OR_RETURN(Json vocabulary, Vocabulary(metadata, tokens));
  tokenizer["model"] = {{"type", "BPE"},
                        {"vocab", std::move(vocabulary)},
                        {"merges", merges},
                        {"ignore_merges", pre->whole_words}};
  tokenizer["normalizer"] = pre->composes ? Json{{"type", "NFC"}} : Json();
  tokenizer["pre_tokenizer"] = PreTokenizerJson(*pre);
  ASSIGN_OR_RETURN(const bool adds_bos, AddsBos(metadata, pre->adds_bos));
  if (adds_bos) {
    ASSIGN_OR_RETURN(tokenizer["post_processor"], AddingBos(metadata, tokens));
  }
  tokenizer["decoder"] = ByteLevelStep(true);
  return tokenizer;
}

absl::StatusOr<Json> SentencePiece(const JsonObject& metadata,
                                   const std::vector<std::string>& tokens, Json tokenizer) {
  ASSIGN_OR_RETURN(const std::vector<double> scores,
                   ReadArray<double>(metadata, kScores, Json::value_t::number_float));
  if (scores.size() != tokens.size()) {
    return metadata.KeyError(
        kScores, absl::StrCat("has ", scores.size(), " elements for ", tokens.size(), " tokens"));
  }
  ASSIGN_OR_RETURN(Json vocabulary, Vocabulary(metadata, tokens));
  ASSIGN_OR_RETURN(const std::string unknown,
                   TokenText(metadata, "tokenizer.ggml.unknown_token_id", tokens));
  tokenizer["model"] = {{"type", "BPE"},
                        {"vocab", std::move(vocabulary)},
                        {"merges", PieceMerges(tokens, scores)},
                        {"unk_token", unknown.empty() ? Json() : Json(unknown)},
                        {"fuse_unk", true},
                        {"byte_fallback", true}};
  ASSIGN_OR_RETURN(const bool prefix, metadata.Get<bool>("tokenizer.ggml.add_space_prefix", true));
  AddPieceSteps(prefix, tokenizer);
  ASSIGN_OR_RETURN(const bool adds_bos, AddsBos(metadata, true));
  if (adds_bos) {
    ASSIGN_OR_RETURN(tokenizer["post_processor"], AddingBos(metadata, tokens));
  }
  return tokenizer;
}

}  // namespace

absl::StatusOr<Json> GgufTokenizer(const GgufModel& model) {
  const JsonObject& metadata = model.metadata();
  ASSIGN_OR_RETURN(const std::string kind, metadata.Get<std::string>("tokenizer.ggml.model"));
  ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(metadata));
  ASSIGN_OR_RETURN(const std::vector<int> types, ReadTypes(metadata, tokens.size()));
  Json tokenizer = {{"version", "1.0"},          {"truncation", nullptr},
                    {"padding", nullptr},        {"added_tokens", AddedTokens(tokens, types)},
                    {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
                    {"post_processor", nullptr}, {"decoder", nullptr}};
  if (kind == "gpt2") return ByteLevelBpe(metadata, tokens, std::move(tokenizer));
  if (kind == "llama") return SentencePiece(metadata, tokens, std::move(tokenizer));
  return absl::UnimplementedError(absl::StrCat(metadata.origin(),
                                               ": the tokenizer 'tokenizer.ggml.model' is '", kind,
                                               "'; supported: gpt2, llama"));
}

absl::StatusOr<Json> GgufTokenizerConfig(const GgufModel& model) {
  const JsonObject& metadata = model.metadata();
  ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(metadata));
  Json config = Json::object();
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kNames) {
    ASSIGN_OR_RETURN(const std::string text, TokenText(metadata, key, tokens));
    if (!text.empty()) config[name] = text;
  }
  if (const Json* const chat = metadata.Find("tokenizer.chat_template"); chat != nullptr) {
    config["chat_template"] = *chat;
  }
  return config;
}

absl::StatusOr<std::vector<int>> GgufEndTokens(const JsonObject& metadata) {
  std::set<int> ends;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    ASSIGN_OR_RETURN(const std::vector<int> ids, metadata.Integers(key));
    ends.insert(ids.begin(), ids.end());
  }
  if (!metadata.Has(kTokens)) return std::vector<int>(ends.begin(), ends.end());
  ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(metadata));
  ASSIGN_OR_RETURN(const std::vector<int> types, ReadTypes(metadata, tokens.size()));
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool ends_answer =
        std::find(std::begin(kEndTexts), std::end(kEndTexts), tokens[id]) != std::end(kEndTexts);
    if (ends_answer && types[id] == kControlToken) ends.insert(static_cast<int>(id));
  }
  return std::vector<int>(ends.begin(), ends.end());
}

}  // namespace bastion::hub
