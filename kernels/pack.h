// Packing: matrices as checkpoints hold them into the panels that linear() reads.
#ifndef BASTION_KERNELS_PACK_H_
#define BASTION_KERNELS_PACK_H_

#include "absl/types/span.h"
#include "kernels/thread_pool.h"
#include "kernels/types.h"

namespace bastion::kernels {

// A row-major matrix [rows, K], aligned to its elements.
struct SourceMatrix {
  DType type = DType::kF32;  // A float type.
  const void* data = nullptr;
  int rows = 0;

  [[nodiscard]] size_t row_bytes(int columns) const {
    return size_t(columns) * BytesPerElement(type);
  }
  [[nodiscard]] size_t bytes(int columns) const { return row_bytes(columns) * rows; }
};

// Packs `parts`, one below the other, into `to`: its dtype, N = the sum of their rows and K are
// given, its data is bytes() of memory to be written. Floats become bf16 by rounding to nearest,
// int8 row by row by rounding to max|w| / 127 · int8.
//
// Each source is read once, panel by panel, whichever type it has (twice for int8, while its rows
// are in the cache); nothing is allocated.
void PackMatrix(absl::Span<const SourceMatrix> parts, const PackedMatrix& to, ThreadPool& pool);

// `count` elements of `type` at `from`, as `dtype` (fp32 or bf16, rounded to nearest) at `to`.
void ConvertElements(DType type, const void* from, int64_t count, DType dtype, void* to);

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_PACK_H_
