#include "kernels/cuda/product/pack_int8.h"

#include <vector>

#include "kernels/cuda/product/int8_rows.h"
#include "kernels/ops/round_int8.h"

namespace bastion::kernels::cuda {
namespace {

// Stores the integers [K] of a row in the order of int8_rows.h.
void Arrange(const std::vector<int8_t>& integers, uint8_t* to) {
  const auto columns = static_cast<int>(integers.size());
  for (int k = 0; k < Int8Pitch(columns); ++k) {
    const int place = k / 16 * 16 + k % 8 / 2 * 4 + k % 16 / 8 * 2 + k % 2;
    to[place] = static_cast<uint8_t>((k < columns ? integers[k] : 0) + kInt8Zero);
  }
}

}  // namespace

void PackInt8(const Int8Source& from, uint8_t* rows, float* scales) {
  std::vector<int8_t> integers(from.columns);
  for (int i = 0; i < from.count; ++i) {
    scales[i] = RoundRow(from.matrix, from.first + i, from.columns, integers.data());
    Arrange(integers, rows + static_cast<size_t>(i) * Int8Pitch(from.columns));
  }
}

}  // namespace bastion::kernels::cuda
