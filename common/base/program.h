// RunProgram: the code that all main functions share.
#ifndef BASTION_COMMON_BASE_PROGRAM_H_
#define BASTION_COMMON_BASE_PROGRAM_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/command_line.h"

namespace bastion {

// Parses the flags (names may contain dashes) and calls `run` with the other arguments, argv[0]
// first. Prints an error as one line that begins with the program's name. Reports an exception from
// a library (e.g. out of memory) as an error. Handles --help and --version. Raises the limit on
// descriptors to the hard limit. Returns the exit status: 0, or 1 after an error.
int RunProgram(int argc, char** argv, const ProgramInfo& info,
               absl::FunctionRef<absl::Status(const std::vector<char*>& arguments)> run);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PROGRAM_H_
