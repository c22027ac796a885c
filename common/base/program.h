// What every main function of the project does around its work.
#ifndef BASTION_COMMON_BASE_PROGRAM_H_
#define BASTION_COMMON_BASE_PROGRAM_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace bastion {

// Parses the flags (dashes in their names are fine), calls `run` with the arguments that are left,
// argv[0] first, and prints its error under the program's name. Exceptions of the libraries below
// (out of memory) count as errors. Returns the exit status: 0 or 1.
int RunProgram(int argc, char** argv, const char* usage,
               absl::FunctionRef<absl::Status(const std::vector<char*>& arguments)> run);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PROGRAM_H_
