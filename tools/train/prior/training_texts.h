// Reads training files and converts their texts to tokens.
//
//   FILE.txt     one text
//   FILE.jsonl   one text per line: {"text": "…"} or {"token_ids": […]}; other keys are ignored
//
// Thread-safe: no state.
#ifndef BASTION_TOOLS_TRAIN_PRIOR_TRAINING_TEXTS_H_
#define BASTION_TOOLS_TRAIN_PRIOR_TRAINING_TEXTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion::drafter {

// Calls `use` for each text, file by file. Regularly calls `progress` with the bytes read so far
// and the total of all files. The tokenizer in `target_folder` is loaded when the first text needs
// it. INVALID_ARGUMENT for a file that cannot be read, has an unsupported extension or is
// malformed. All errors, including those of `use` and the tokenizer, name the file and, for .jsonl
// files, the line.
[[nodiscard]] absl::Status ForEachText(
    const std::vector<std::string>& files, const std::string& target_folder,
    absl::FunctionRef<absl::Status(absl::Span<const TokenId> text)> use,
    absl::FunctionRef<void(int64_t done, int64_t total)> progress);

}  // namespace bastion::drafter

#endif  // BASTION_TOOLS_TRAIN_PRIOR_TRAINING_TEXTS_H_
