// What every main function of the project does around its work.
#ifndef BASTION_COMMON_BASE_PROGRAM_H_
#define BASTION_COMMON_BASE_PROGRAM_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/command_line.h"

namespace bastion {

// Parses the flags (dashes in their names are fine) and calls `run` with the arguments that are
// left, argv[0] first. Prints an error in one line under the program's name. Exceptions of
// libraries (out of memory) count as errors. Answers --help and --version itself.
// Returns the exit status: 0, or 1 after an error.
int RunProgram(int argc, char** argv, const ProgramInfo& info,
               absl::FunctionRef<absl::Status(const std::vector<char*>& arguments)> run);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PROGRAM_H_
