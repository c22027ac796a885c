#include "tests/support/hub_fixtures.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "common/base/check.h"
#include "tests/support/temp_folder.h"

namespace bastion::testing {
namespace {

using nlohmann::json;

std::string LittleEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string Utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's table: a printable Latin-1 byte maps to itself, the other bytes map to U+0100, U+0101, …
std::vector<std::string> ByteCharacters() {
  std::vector<std::string> characters(256);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    characters[byte] = Utf8(printable ? byte : next++);
  }
  return characters;
}

// The merges in the order of their rank, as pairs of byte strings.
const std::vector<std::pair<std::string, std::string>>& Merges() {
  static const auto* const merges = new std::vector<std::pair<std::string, std::string>>{
      {"t", "h"},       {"th", "e"},          {" ", "the"},     {"\xC3", "\xA9"},
      {"\xE6", "\x97"}, {"\xE6\x97", "\xA5"}, {"\xF0", "\x9F"}, {"i", "n"}};
  return *merges;
}

// `bytes` in the characters of ByteCharacters().
std::string ToByteCharacters(const std::string& bytes) {
  static const auto* const characters = new std::vector<std::string>(ByteCharacters());
  std::string text;
  for (const char byte : bytes) text += (*characters)[static_cast<uint8_t>(byte)];
  return text;
}

json SpecialToken(TokenId id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string SafetensorsFileOf(const std::vector<TensorFixture>& tensors) {
  json header;
  std::string data;
  for (const TensorFixture& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return SafetensorsFileOf(header.dump(), data);
}

std::string SafetensorsFileOf(const std::string& header, std::string_view data) {
  std::string padded = header;
  while (padded.size() % 8 != 0) padded += ' ';
  return LittleEndian(padded.size()) + padded + std::string(data);
}

std::string CountingFloats(int count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  std::string bytes(count * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

json ByteLevelTokenizerJson() {
  json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[ToByteCharacters(std::string(1, static_cast<char>(byte)))] = byte;
  }
  json merges = json::array();
  TokenId next = kFirstMerge;
  for (const auto& [left, right] : Merges()) {
    merges.push_back({ToByteCharacters(left), ToByteCharacters(right)});
    vocabulary[ToByteCharacters(left + right)] = next++;
  }
  const char* pattern =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  json tokenizer;
  tokenizer["version"] = "1.0";
  tokenizer["added_tokens"] = {SpecialToken(kEndOfText, "<|endoftext|>"),
                               SpecialToken(kImStart, "<|im_start|>"),
                               SpecialToken(kImEnd, "<|im_end|>")};
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"},
                                {"pretokenizers", json::array({split, byte_level})}};
  tokenizer["decoder"] = byte_level;
  tokenizer["model"] = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}};
  return tokenizer;
}

json WordTokenizerJson(const std::vector<std::string>& words) {
  json tokenizer = ByteLevelTokenizerJson();
  tokenizer["added_tokens"] = json::array();
  json& model = tokenizer["model"];
  model["merges"] = json::array();
  for (auto token = model["vocab"].begin(); token != model["vocab"].end();) {
    token = *token >= kFirstMerge ? model["vocab"].erase(token) : std::next(token);
  }
  TokenId next = kFirstMerge;
  for (const std::string& word : words) model["vocab"][ToByteCharacters(word)] = next++;
  return tokenizer;
}

hub::Tokenizer LoadTokenizer(const json& json) {
  const TempFolder folder;
  folder.Write("tokenizer.json", json.dump());
  absl::StatusOr<hub::Tokenizer> tokenizer = hub::Tokenizer::Load(folder.path());
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

}  // namespace bastion::testing
