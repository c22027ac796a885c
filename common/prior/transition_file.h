// Reads and writes a TransitionTable as a safetensors file. The file is in the drafter's folder;
// the loader of the drafter's weights ignores it.
//
//   facts        I64 [2]          format version, vocabulary V
//   pairs        U64 [M]          this and the tensors below: see TransitionTable::Columns
//   occurrences  U32 [V]
//   totals       U32 [V + M]
//   offsets      U32 [V + M + 1]
//   tokens       I32 [E]
//   counts       U16 [E]
//
// Thread-safe: no state.
#ifndef BASTION_COMMON_PRIOR_TRANSITION_FILE_H_
#define BASTION_COMMON_PRIOR_TRANSITION_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/prior/transition_table.h"

namespace bastion::hub {

inline constexpr const char* kTransitionFileName = "transition_prior.safetensors";
inline constexpr int64_t kTransitionFileVersion = 1;

// NOT_FOUND if there is no file. INVALID_ARGUMENT if the file is damaged, has another version or is
// inconsistent; the message names the file and, if possible, the tensor.
[[nodiscard]] absl::StatusOr<TransitionTable> ReadTransitionTable(const std::string& path);

// Reads the table at `path`: a table file, or a folder that may contain a table file. Null for a
// folder without a table. FAILED_PRECONDITION if the table has another vocabulary. Other errors: as
// for ReadTransitionTable.
[[nodiscard]] absl::StatusOr<std::unique_ptr<const TransitionTable>> FindTransitionTable(
    const std::string& path, int vocabulary);

// Like FindTransitionTable, but NOT_FOUND for a folder without a table.
[[nodiscard]] absl::StatusOr<std::unique_ptr<const TransitionTable>> RequireTransitionTable(
    const std::string& path, int vocabulary);

// Writes the table to `path`. After an error, the old file, if any, is unchanged. Errors: those of
// WriteSafetensors.
[[nodiscard]] absl::Status WriteTransitionTable(const TransitionTable& table,
                                                const std::string& path);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_PRIOR_TRANSITION_FILE_H_
