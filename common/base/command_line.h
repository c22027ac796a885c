// What a program says about its command line: --help by groups, and errors that name the flag.
// Thread-compatible; used from main functions, before other threads run.
#ifndef BASTION_COMMON_BASE_COMMAND_LINE_H_
#define BASTION_COMMON_BASE_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace bastion {

// Flags that --help lists together. Each entry is a flag's name and the placeholder of its value,
// "target DIR"; a flag without a value has no placeholder.
struct FlagGroup {
  const char* title;
  std::vector<const char*> flags;
};

struct ProgramInfo {
  const char* summary;                     // One sentence: what the program does.
  const char* usage;                       // The arguments, e.g. "--target DIR [flags]".
  const char* example;                     // The arguments of one call that works.
  std::vector<const char*> required = {};  // Names of flags that must not be empty.
  std::vector<FlagGroup> groups;
  // Text after the flags, or null.
  const char* notes = nullptr;
};

// Turns the dashes inside the names of flags in `argv` into underscores, in place: people write
// --max-new-tokens, but a flag variable can only be called max_new_tokens. Values, arguments that
// are not flags, and everything after a lone "--" stay as they are.
void UnderscoreFlagNames(int argc, char** argv);

// INVALID_ARGUMENT for a flag that does not exist; the message suggests the nearest name.
[[nodiscard]] absl::Status CheckFlagNames(int argc, char** argv);

// INVALID_ARGUMENT for a required flag without a value. Call it after the flags are parsed.
[[nodiscard]] absl::Status CheckRequiredFlags(const std::string& program, const ProgramInfo& info);

// The text of --help: summary, usage, example and every flag with its unit and default. Flags of
// the program that no group lists come last, under "Other".
[[nodiscard]] std::string HelpText(const std::string& program, const ProgramInfo& info);

// True if an argument before a lone "--" is `flag` or `alias`.
[[nodiscard]] bool HasArgument(int argc, char** argv, const char* flag, const char* alias);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_COMMAND_LINE_H_
