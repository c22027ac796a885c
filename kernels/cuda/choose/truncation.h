// Top-k, top-p and min-p over rows of logits, for the choice and the coupled top-k.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_TRUNCATION_H_
#define BASTION_KERNELS_CUDA_CHOOSE_TRUNCATION_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {

inline constexpr int kTruncationEntries = 4096;

// What the truncation of a row keeps in device memory. Zero before the first launch.
struct alignas(16) TruncationRow {
  Survivors survivors;                // The result.
  uint64_t total;                     // The mass of the row.
  uint64_t floor;                     // The lowest entry of the shortlist.
  uint64_t best;                      // The best entry.
  int32_t gathered;                   // Entries of the shortlist, even those that do not fit.
  uint32_t arrived;                   // Blocks that are done.
  int64_t chosen;                     // 1: CutKernel has chosen the token, too.
  uint64_t list[kTruncationEntries];  // The best entries of the strips, then the shortlist.
};

// Finds the survivors of the rows whose rules truncate; does not write the others. No token
// survives in a row that contains NaN or +inf, or only −inf.
struct TruncateArgs {
  const int32_t* rows_used = nullptr;
  const float* logits = nullptr;      // [R, V], V at most 2²²
  const ChoiceRule* rules = nullptr;  // [R]
  char* scratch = nullptr;            // R TruncationRows, `stride` bytes apart
  size_t stride = 0;
  // [R] or null. Not null: also chooses the tokens of rows with few survivors (chosen).
  int32_t* tokens = nullptr;
  int rows = 0;        // R
  int vocabulary = 0;  // V
};
void Truncate(const TruncateArgs& args, Stream& stream);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_CHOOSE_TRUNCATION_H_
