// Helpers for tests that write checkpoint folders: valid and invalid safetensors files, and a small
// tokenizer.
#ifndef BASTION_TESTS_SUPPORT_HUB_FIXTURES_H_
#define BASTION_TESTS_SUPPORT_HUB_FIXTURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/hub/tokenizer.h"

namespace bastion::testing {

struct TensorFixture {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// The bytes of a safetensors file that contains `tensors` in this order.
[[nodiscard]] std::string SafetensorsFileOf(const std::vector<TensorFixture>& tensors);
// The bytes of a file with any header, valid or not.
[[nodiscard]] std::string SafetensorsFileOf(const std::string& header, std::string_view data);
// The bytes of the `count` floats 0, 1, 2, …
[[nodiscard]] std::string CountingFloats(int count);

// A byte-level BPE tokenizer like Qwen's, but without a normalizer. Ids 0 to 255 are the bytes.
// Merged tokens ("th", "the", " the", "é" …) start at kFirstMerge; the special tokens follow.
[[nodiscard]] nlohmann::json ByteLevelTokenizerJson();
// A byte-level tokenizer without merges. Its tokens are the bytes, then `words`. Nothing is
// special.
[[nodiscard]] nlohmann::json WordTokenizerJson(const std::vector<std::string>& words);
inline constexpr TokenId kFirstMerge = 256;
inline constexpr TokenId kEndOfText = 264;  // <|endoftext|>
inline constexpr TokenId kImStart = 265;    // <|im_start|>
inline constexpr TokenId kImEnd = 266;      // <|im_end|>
inline constexpr int kByteLevelVocabulary = 267;

// Writes `json` to a temporary folder and loads the tokenizer from it.
[[nodiscard]] hub::Tokenizer LoadTokenizer(const nlohmann::json& json);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_HUB_FIXTURES_H_
