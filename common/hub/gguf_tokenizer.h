// Writes the tokenizer.json and tokenizer_config.json of a GGUF file's model. Internal to
// common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_GGUF_TOKENIZER_H_
#define BASTION_COMMON_HUB_GGUF_TOKENIZER_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"

namespace bastion::hub {

class GgufModel;

// A byte-level BPE tokenizer ("gpt2") or one of SentencePiece ("llama"). UNIMPLEMENTED, with the
// names that are supported, for another model or pre-tokenizer; INVALID_ARGUMENT for missing or
// invalid metadata.
[[nodiscard]] absl::StatusOr<nlohmann::json> GgufTokenizer(const GgufModel& model);

// The chat template and the special tokens.
[[nodiscard]] absl::StatusOr<nlohmann::json> GgufTokenizerConfig(const GgufModel& model);

// The tokens that end an answer, in ascending order: those that the metadata names, and special
// tokens that all published models use for this, e.g. <|im_end|>.
[[nodiscard]] absl::StatusOr<std::vector<int>> GgufEndTokens(const JsonObject& metadata);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_GGUF_TOKENIZER_H_
