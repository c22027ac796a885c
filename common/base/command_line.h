// Command-line support for main functions: --help with flags in groups, and errors that name the
// flag. Not thread-safe: call it before other threads start.
#ifndef BASTION_COMMON_BASE_COMMAND_LINE_H_
#define BASTION_COMMON_BASE_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace bastion {

// Flags that --help lists together. Each entry is a flag name and a placeholder for its value, e.g.
// "target DIR". A flag without a value has no placeholder. ADDRESS and ADDRESSES are for what
// CheckAddressFlags checks.
struct FlagGroup {
  const char* title;
  std::vector<const char*> flags;
};

struct ProgramInfo {
  const char* summary;                     // What the program does, in one sentence.
  const char* usage;                       // The arguments, e.g. "--target DIR [flags]".
  const char* example;                     // Arguments of a valid call.
  std::vector<const char*> required = {};  // Names of flags that must not be empty.
  std::vector<FlagGroup> groups = {};
  // Text after the flags, or null.
  const char* notes = nullptr;
};

// Replaces dashes in the flag names in `argv` with underscores, in place: users write
// --max-new-tokens, but a flag variable can only be called max_new_tokens. Does not change values,
// arguments that are not flags, or arguments after a lone "--".
void UnderscoreFlagNames(int argc, char** argv);

// Replaces the old names of renamed flags in `argv` with the new ones, and warns. An old name works
// for one release. The new strings live until the program ends. Call it after UnderscoreFlagNames.
void RenameOldFlags(int argc, char** argv);

// INVALID_ARGUMENT for a flag that does not exist. The message suggests the most similar name.
[[nodiscard]] absl::Status CheckFlagNames(int argc, char** argv);

// INVALID_ARGUMENT for a required flag without a value. Call it after the flags are parsed.
[[nodiscard]] absl::Status CheckRequiredFlags(const std::string& program, const ProgramInfo& info);

// INVALID_ARGUMENT for a flag with the placeholder ADDRESS or ADDRESSES whose ports are wrong
// (CheckPorts). Call it after the flags are parsed.
[[nodiscard]] absl::Status CheckAddressFlags(const ProgramInfo& info);

// The text of --help: summary, usage, example and every flag with its unit and default. Flags in no
// group come last, under "Other".
[[nodiscard]] std::string HelpText(const std::string& program, const ProgramInfo& info);

// True if an argument before a lone "--" is `flag` or `alias`.
[[nodiscard]] bool HasArgument(int argc, char** argv, const char* flag, const char* alias);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_COMMAND_LINE_H_
