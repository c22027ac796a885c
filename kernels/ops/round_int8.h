// Rounding to int8, row by row.
#ifndef BASTION_KERNELS_OPS_ROUND_INT8_H_
#define BASTION_KERNELS_OPS_ROUND_INT8_H_

#include <cstdint>

#include "kernels/ops/pack.h"

namespace bastion::kernels {

// Rounds row `row` of `from`, K = `columns` wide, as PackMatrix does. Stores the integers [K] at
// `to` and returns the scale.
float RoundRow(const SourceMatrix& from, int row, int columns, int8_t* to);

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_ROUND_INT8_H_
