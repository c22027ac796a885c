// The rows of a matrix that become one panel, and the functions that pack them, one per format. For
// kernels/ops/pack.cc.
#ifndef BASTION_KERNELS_OPS_PANEL_ROWS_H_
#define BASTION_KERNELS_OPS_PANEL_ROWS_H_

#include <algorithm>
#include <array>

#include "common/base/block_format.h"
#include "kernels/ops/types.h"

namespace bastion::kernels {

// The matrix is transposed in blocks of 32 rows and this many words (see PackedMatrix), so that a
// block fits in the L1 cache.
inline constexpr int kBlockWords = 64;
inline constexpr int kMaxElements = kBlockWords * 4;  // Maximum elements in a row of a block.

// One row of the matrix, which becomes a column of a panel. `data` is null past the last row.
struct PanelRow {
  DType type = DType::kF32;
  const void* data = nullptr;
  BlockFormat blocks = BlockFormat::kNone;
};
using PanelRows = std::array<PanelRow, kPanel>;

// Converts elements [k, k + count) of `row` to floats.
void ToFloats(const PanelRow& row, int64_t k, int count, float* to);
// Converts them to `type`, which is fp32 or bf16. REQUIRES: count <= kMaxElements.
void ConvertRow(const PanelRow& row, int64_t k, int count, DType type, void* to);

// Packs panel number `panel` of `to`: fp32 or bf16, and int8.
void PackFloatPanel(const PanelRows& rows, const PackedMatrix& to, int panel);
void PackInt8Panel(const PanelRows& rows, const PackedMatrix& to, int panel);

using PackPanel = void (*)(const PanelRows& rows, const PackedMatrix& to, int panel);
[[nodiscard]] constexpr PackPanel PackFunctionOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBF16:
    case WeightFormat::kF32:
      return PackFloatPanel;
    case WeightFormat::kInt8:
      return PackInt8Panel;
  }
  return nullptr;
}

// Stores the words of all rows, transposed. convert(i, k, count, words) converts elements [k, k +
// count) of row i.
template <typename Convert>
void PackWords(const PanelRows& rows, const PackedMatrix& to, int panel, const Convert& convert) {
  auto* const words = static_cast<uint32_t*>(const_cast<void*>(to.data)) +
                      to.panel_bytes() / sizeof(uint32_t) * panel;
  const int total = to.depth() / to.per_word();
  for (int word = 0; word < total; word += kBlockWords) {
    alignas(64) uint32_t block[kPanel][kBlockWords] = {};
    const int count = std::min(kBlockWords, total - word), k = word * to.per_word();
    const int elements = std::min(count * to.per_word(), to.columns - k);
    for (int i = 0; i < kPanel; ++i) {
      if (rows[i].data != nullptr) convert(i, k, elements, block[i]);
    }
    uint32_t* const first = words + size_t{kPanel} * word;
    for (int w = 0; w < count; ++w) {
      for (int i = 0; i < kPanel; ++i) first[w * kPanel + i] = block[i][w];
    }
  }
}

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_PANEL_ROWS_H_
