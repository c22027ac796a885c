// The texts of training files, as tokens.
//
//   FILE.txt     one text
//   FILE.jsonl   one a line: {"text": "…"} or {"token_ids": […]}; other keys are ignored
//
// Thread-safe: no state.
#ifndef BASTION_CLIENT_TRAIN_TRAINING_TEXTS_H_
#define BASTION_CLIENT_TRAIN_TRAINING_TEXTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion::drafter {

// Calls `use` for each text, file by file, and `progress` now and then with the bytes read so far
// and of all files. Text goes through the tokenizer of `target_folder`, which is loaded when first
// needed. INVALID_ARGUMENT for a file that cannot be read, is of another kind or holds something
// else; that and the errors of `use` and the tokenizer name the file, and the line of a .jsonl.
[[nodiscard]] absl::Status ForEachText(
    const std::vector<std::string>& files, const std::string& target_folder,
    absl::FunctionRef<absl::Status(absl::Span<const TokenId> text)> use,
    absl::FunctionRef<void(int64_t done, int64_t total)> progress);

}  // namespace bastion::drafter

#endif  // BASTION_CLIENT_TRAIN_TRAINING_TEXTS_H_
