// Converts quantized weights of GGUF files to floats. The results equal those of the `gguf` package
// bit for bit: every product and sum is rounded to float, in the same order.
//
// Thread-safe: no state.
#ifndef BASTION_KERNELS_OPS_DEQUANTIZE_H_
#define BASTION_KERNELS_OPS_DEQUANTIZE_H_

#include <cstdint>

#include "common/base/block_format.h"

namespace bastion::kernels {

// Converts elements [first, first + count) of a row of blocks at `blocks`, which need not be
// aligned. REQUIRES: `format` is not kNone.
void Dequantize(BlockFormat format, const void* blocks, int64_t first, int64_t count, float* to);

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_DEQUANTIZE_H_
