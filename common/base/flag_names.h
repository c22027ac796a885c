// People write --max-new-tokens; a flag variable can only be called max_new_tokens. Used from main
// functions, before absl::ParseCommandLine.
#ifndef BASTION_COMMON_BASE_FLAG_NAMES_H_
#define BASTION_COMMON_BASE_FLAG_NAMES_H_

namespace bastion {

// Turns the dashes inside the names of flags in `argv` into underscores, in place. Values,
// arguments that are no flags, and everything after a lone "--" stay as they are.
void UnderscoreFlagNames(int argc, char** argv);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_FLAG_NAMES_H_
