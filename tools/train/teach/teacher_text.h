// Teacher text: what a drafter learns from. A teacher folder has
//
//   teacher.json   how the texts were made (TeacherInfo)
//   texts.jsonl    one text per line: {"id": "p3", "prompt_tokens": 48, "token_ids": […]}
//
// Thread-safe: no state.
#ifndef BASTION_TOOLS_TRAIN_TEACH_TEACHER_TEXT_H_
#define BASTION_TOOLS_TRAIN_TEACH_TEACHER_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion::train {

// A prompt and what the target wrote after it.
struct TeacherText {
  std::string id;  // The prompt's.
  std::vector<TokenId> tokens;
  int prompt_tokens = 0;  // The first tokens, which the target did not write.

  [[nodiscard]] int written() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
};

// How the texts of a folder were made. Equal settings make equal texts.
struct TeacherInfo {
  std::string target;  // hub::Checkpoint::Identity
  std::string weights, activations;
  std::string prompts;        // The name of the file, without folders.
  std::string template_args;  // For the chat template.
  std::vector<float> temperatures;
  uint64_t seed = 0;
  int max_new_tokens = 0;

  friend bool operator==(const TeacherInfo&, const TeacherInfo&) = default;
};

// NOT_FOUND if the folder has no teacher text. INVALID_ARGUMENT for a damaged file.
[[nodiscard]] absl::StatusOr<TeacherInfo> ReadTeacherInfo(const std::string& folder);
// UNAVAILABLE if the file cannot be written.
[[nodiscard]] absl::Status WriteTeacherInfo(const TeacherInfo& info, const std::string& folder);

// All texts of a folder. NOT_FOUND if there is no texts.jsonl. INVALID_ARGUMENT, naming the file
// and the line, for a damaged line or a token outside the vocabulary. A last line without an end is
// left out: its writer was killed.
[[nodiscard]] absl::StatusOr<std::vector<TeacherText>> ReadTeacherTexts(const std::string& folder,
                                                                        int vocabulary);

// The `count` tokens that the target wrote most often, ascending. Ties go to the lowest ids.
[[nodiscard]] std::vector<TokenId> FrequentTokens(absl::Span<const TeacherText> texts,
                                                  int vocabulary, int count);

// Removes a last line without an end, and returns the number of lines. 0 without a file. The
// system's error if the file cannot be changed.
[[nodiscard]] absl::StatusOr<int64_t> RepairTeacherTexts(const std::string& folder);
// Appends texts and waits until they are in the file. UNAVAILABLE if they cannot be written.
[[nodiscard]] absl::Status AppendTeacherTexts(absl::Span<const TeacherText> texts,
                                              const std::string& folder);

// The number of tokens that a drafter can learn from: all of `written`, or those before a loop
// begins. A loop is a window of 32 tokens in which fewer than 35 % of the sequences of four tokens
// are distinct; the first half of the window still counts.
[[nodiscard]] int UsefulLength(absl::Span<const TokenId> written);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_TEACH_TEACHER_TEXT_H_
