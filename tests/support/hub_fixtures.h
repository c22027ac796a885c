// Checkpoint folders made by tests: a folder that goes away, safetensors files good and bad, and
// small tokenizers.
#ifndef BASTION_TESTS_SUPPORT_HUB_FIXTURES_H_
#define BASTION_TESTS_SUPPORT_HUB_FIXTURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/hub/tokenizer.h"

namespace bastion::testing {

// A folder of its own under the system's temporary one, removed with its files at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string File(std::string_view name) const;
  void Write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

struct TensorFixture {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A whole safetensors file that holds `tensors` in their order.
[[nodiscard]] std::string SafetensorsFileOf(const std::vector<TensorFixture>& tensors);
// The same from any header, right or wrong.
[[nodiscard]] std::string SafetensorsFileOf(const std::string& header, std::string_view data);
// `count` floats 0, 1, 2, … as bytes.
[[nodiscard]] std::string CountingFloats(int count);

// A byte-level BPE tokenizer as Qwen's, without its normalizer: ids 0 to 255 are the bytes, from
// kFirstMerge on follow what merges make ("th", "the", " the", "é" …), then the special tokens.
[[nodiscard]] nlohmann::json ByteLevelTokenizerJson();
inline constexpr TokenId kFirstMerge = 256;
inline constexpr TokenId kEndOfText = 264;  // <|endoftext|>
inline constexpr TokenId kImStart = 265;    // <|im_start|>
inline constexpr TokenId kImEnd = 266;      // <|im_end|>
inline constexpr int kByteLevelVocabulary = 267;

// Written to a folder and loaded from it.
[[nodiscard]] hub::Tokenizer LoadTokenizer(const nlohmann::json& json);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_HUB_FIXTURES_H_
