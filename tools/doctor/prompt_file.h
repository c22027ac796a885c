// Reads the prompts of the doctor: the format of bastion-bench --prompts. Thread-safe: no state.
#ifndef BASTION_TOOLS_DOCTOR_PROMPT_FILE_H_
#define BASTION_TOOLS_DOCTOR_PROMPT_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bastion/v1/generation.pb.h"

namespace bastion::doctor {

// Reads JSON lines {"text"} or {"token_ids"} as requests that have a prompt only. Other fields are
// ignored. INVALID_ARGUMENT for another line, with its number, and for a file without prompts;
// NOT_FOUND if the file cannot be read.
[[nodiscard]] absl::StatusOr<std::vector<v1::GenerateRequest>> ReadPrompts(const std::string& file);

// A few short prompts, for a first look without a prompt file.
[[nodiscard]] std::vector<v1::GenerateRequest> BuiltInPrompts();

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_PROMPT_FILE_H_
