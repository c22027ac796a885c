// linear(): y = x Wᵀ over packed panels.
//
// A tile is M rows by N panels held in registers; k runs over all of K for it, so every output is
// one chain of fused multiply-adds and does not depend on M. Weights are read, and widened to
// floats, once for all rows of a tile; for few rows in several streams at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

inline constexpr bool kWide = kLanes == kWidest;
inline constexpr int kMaxRows = kWide ? 12 : 2;     // Of a tile.
inline constexpr int kPanelVectors = 2 * kVectors;  // Registers of one panel row.
inline constexpr size_t kPrefetchBytes = 4096;  // How far ahead of its use a weight is asked for.

// The panels of a tile of M rows: as many as the registers hold beside the sums.
constexpr int PanelsFor(int m) {
  if (!kWide) return m == 1 ? 2 : 1;
  return m <= 2 ? 4 : m <= 6 ? 2 : 1;
}

// One panel row as floats: column c in element c of the result.
HWY_INLINE void LoadPanelRow(const float* row, Vec* w) {
#pragma GCC unroll 32
  for (int v = 0; v < kPanelVectors; ++v) w[v] = hn::LoadU(Floats(), row + v * kLanes);
}
HWY_INLINE void LoadPanelRow(const uint16_t* row, Vec* w) {
  const hn::RebindToUnsigned<Floats> words;
  const auto upper = hn::Set(words, 0xFFFF0000u);
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const auto both = hn::LoadU(words, reinterpret_cast<const uint32_t*>(row) + v * kLanes);
    w[v] = hn::BitCast(Floats(), hn::ShiftLeft<16>(both));
    w[kVectors + v] = hn::BitCast(Floats(), hn::And(both, upper));
  }
}

// Writes or adds one row of a tile: `columns` floats at y.
template <int V>
HWY_INLINE void StoreRow(const Vec* sum, float* y, int columns, bool accumulate) {
  if (columns == V * kLanes) {
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) {
      float* at = y + v * kLanes;
      hn::StoreU(accumulate ? hn::Add(hn::LoadU(Floats(), at), sum[v]) : sum[v], Floats(), at);
    }
    return;
  }
  alignas(64) float out[V * kLanes];
  for (int v = 0; v < V; ++v) hn::Store(sum[v], Floats(), out + v * kLanes);
  for (int i = 0; i < columns; ++i) y[i] = accumulate ? y[i] + out[i] : out[i];
}

// M rows from `row` on by N panels from `panel` on.
template <typename W, int M, int N>
void Tile(const LinearArgs& args, int row, int panel) {
  constexpr int V = N * kPanelVectors;
  const int depth = args.weight.columns;
  const size_t panel_elements = size_t(depth) * kPanel;
  const W* weights = static_cast<const W*>(args.weight.data) + panel * panel_elements;
  const float* x = args.x + size_t(row) * depth;
  Vec sum[M][V];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) sum[m][v] = hn::Zero(Floats());
  }
  constexpr int kAhead = kPrefetchBytes / (kPanel * sizeof(W));  // In rows of a panel.
  const int last = std::max(0, depth - kAhead);
  // Past its end a panel is followed by one that this tile has too: the next tile's lies N - 1 on.
  size_t ahead = size_t(kAhead) * kPanel;
  for (int k = 0; k < depth; ++k, weights += kPanel) {
    if (k == last) ahead += (N - 1) * panel_elements;
    Vec w[V];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      LoadPanelRow(weights + n * panel_elements, w + n * kPanelVectors);
      hwy::Prefetch(weights + n * panel_elements + ahead);
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      const Vec xk = hn::Set(Floats(), x[size_t(m) * depth + k]);
#pragma GCC unroll 32
      for (int v = 0; v < V; ++v) sum[m][v] = hn::MulAdd(xk, w[v], sum[m][v]);
    }
  }
  const int columns = std::min(N * kPanel, args.weight.rows - panel * kPanel);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    float* y = args.y + size_t(row + m) * args.y_stride + panel * kPanel;
    StoreRow<V>(sum[m], y, columns, args.accumulate);
  }
}

// M rows by the panels [begin, end), in nearly equal groups.
template <typename W, int M>
void TileRow(const LinearArgs& args, int row, int begin, int end) {
  constexpr int kGroup = PanelsFor(M);
  const int groups = (end - begin + kGroup - 1) / kGroup;
  for (int g = 0; g < groups; ++g) {
    const int first = begin + (end - begin) * g / groups;
    switch (begin + (end - begin) * (g + 1) / groups - first) {
      case 1:
        Tile<W, M, 1>(args, row, first);
        break;
      case 2:
        if constexpr (kGroup >= 2) Tile<W, M, 2>(args, row, first);
        break;
      case 3:
        if constexpr (kGroup >= 3) Tile<W, M, 3>(args, row, first);
        break;
      default:
        if constexpr (kGroup >= 4) Tile<W, M, 4>(args, row, first);
        break;
    }
  }
}

// `rows` <= M rows by the panels [begin, end).
template <typename W, int M>
void TileRowOf(const LinearArgs& args, int row, int rows, int begin, int end) {
  if (rows == M) return TileRow<W, M>(args, row, begin, end);
  if constexpr (M > 1) TileRowOf<W, M - 1>(args, row, rows, begin, end);
}

// All rows by the panels [begin, end). Rows come in nearly equal blocks; the panels of one
// cache-full are finished for all blocks before the next are read.
template <typename W>
void PanelRange(const LinearArgs& args, int begin, int end) {
  const int blocks = (args.rows + kMaxRows - 1) / kMaxRows;
  const int step = blocks == 1 ? end - begin : 1;
  for (int panel = begin; panel < end; panel += step) {
    for (int b = 0; b < blocks; ++b) {
      const int row = args.rows * b / blocks;
      TileRowOf<W, kMaxRows>(args, row, args.rows * (b + 1) / blocks - row, panel, panel + step);
    }
  }
}

}  // namespace

void Linear(const LinearArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.weight.panels(), PanelsFor(1), [&](int64_t begin, int64_t end) {
    if (args.weight.dtype == DType::kF32) {
      PanelRange<float>(args, static_cast<int>(begin), static_cast<int>(end));
    } else {
      PanelRange<uint16_t>(args, static_cast<int>(begin), static_cast<int>(end));
    }
  });
}

int VectorFloats() { return kLanes; }

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Linear);
HWY_EXPORT(VectorFloats);
int VectorFloats() { return HWY_DYNAMIC_DISPATCH(VectorFloats)(); }
void Linear(const LinearArgs& args, ThreadPool& pool) {
  if (args.weight.dtype == DType::kInt8) return LinearInt8(args, pool);
  HWY_DYNAMIC_DISPATCH(Linear)(args, pool);
}
}  // namespace bastion::kernels::cpu
#endif
