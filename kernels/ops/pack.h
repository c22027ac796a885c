// Packs the matrices of a checkpoint into the panels that linear() reads.
#ifndef BASTION_KERNELS_OPS_PACK_H_
#define BASTION_KERNELS_OPS_PACK_H_

#include "absl/types/span.h"
#include "common/base/block_format.h"
#include "kernels/ops/thread_pool.h"
#include "kernels/ops/types.h"

namespace bastion::kernels {

// A row-major matrix [rows, K], aligned to the size of its elements. Blocks need no alignment, and
// rows consist of whole blocks.
struct SourceMatrix {
  DType type = DType::kF32;  // A float type. Not used for blocks.
  const void* data = nullptr;
  int rows = 0;
  BlockFormat blocks = BlockFormat::kNone;

  [[nodiscard]] size_t row_bytes(int columns) const {
    if (blocks == BlockFormat::kNone) return Bytes(type, columns);
    const BlockShape shape = ShapeOf(blocks);
    return size_t(columns) / shape.elements * shape.bytes;
  }
  [[nodiscard]] size_t bytes(int columns) const { return row_bytes(columns) * rows; }
};

// Packs the rows of all `parts`, in order, into `to`. The caller sets the format, N (the total
// number of rows) and K of `to`, and provides bytes() of memory as its data. Conversion to bf16
// rounds to nearest. Conversion to int8 gives each row the scale max|w| / 127 and rounds w / scale
// to an integer.
//
// The function reads each source once, panel by panel (for int8 twice, the second time from the
// cache). It allocates nothing.
void PackMatrix(absl::Span<const SourceMatrix> parts, const PackedMatrix& to, ThreadPool& pool);

// Converts `count` elements from `from_type` to `to_type` (fp32, or bf16 rounded to nearest).
void ConvertElements(DType from_type, const void* from, int64_t count, DType to_type, void* to);
// The same for elements [first, first + count) of `from`, its rows one after the other.
void ConvertElements(const SourceMatrix& from, int64_t first, int64_t count, DType to_type,
                     void* to);

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_PACK_H_
