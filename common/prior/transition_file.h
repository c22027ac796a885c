// A TransitionTable as a safetensors file of its own, beside the drafter's weights, whose loader
// does not look at it.
//
//   facts        I64 [2]          format version, vocabulary V
//   pairs        U64 [M]          the other columns: see TransitionTable::Columns
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

// NOT_FOUND where there is no file. INVALID_ARGUMENT, naming the file and where possible the
// tensor, for a file that is damaged, of another version or inconsistent.
[[nodiscard]] absl::StatusOr<TransitionTable> ReadTransitionTable(const std::string& path);

// The table beside the checkpoint in `folder`, or of the file `folder`; null where a folder has
// none. FAILED_PRECONDITION for a table of another vocabulary, else as ReadTransitionTable.
[[nodiscard]] absl::StatusOr<std::unique_ptr<const TransitionTable>> FindTransitionTable(
    const std::string& folder, int vocabulary);

// The same for a place that someone named: NOT_FOUND where there is none.
[[nodiscard]] absl::StatusOr<std::unique_ptr<const TransitionTable>> RequireTransitionTable(
    const std::string& folder, int vocabulary);

// As WriteSafetensors: the whole new file, or the old one and a status.
[[nodiscard]] absl::Status WriteTransitionTable(const TransitionTable& table,
                                                const std::string& path);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_PRIOR_TRANSITION_FILE_H_
