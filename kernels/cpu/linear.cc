// linear(): y = x Wᵀ over packed panels.
//
// A tile is M rows by N panels held in registers; k runs over all of K for it, so every output is
// one chain of fused multiply-adds and does not depend on M. Weights are read once for all rows of
// a tile and, for few rows, in as many streams as the registers allow.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

// Rows and panels of the largest tile: accumulators, weights and one broadcast fit the registers.
inline constexpr bool kWide = kLanes == kPanel;
inline constexpr int kMaxRows = kWide ? 6 : 2;
inline constexpr int kFewRows = kWide ? 3 : 1;  // Up to here, more panels a tile.
inline constexpr int kFewRowsPanels = kWide ? 8 : 4;
inline constexpr int kManyRowsPanels = kWide ? 4 : 2;

template <typename W, int M, int N>
HWY_INLINE void Tile(const LinearArgs& args, int row, int panel) {
  const int depth = args.weight.columns;
  const W* weights = static_cast<const W*>(args.weight.data) + size_t(panel) * depth * kPanel;
  const float* x = args.x + size_t(row) * depth;
  Vec sum[M][N * kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 16
    for (int n = 0; n < N * kVectors; ++n) sum[m][n] = hn::Zero(Floats());
  }
  for (int k = 0; k < depth; ++k) {
    Vec w[N * kVectors];
#pragma GCC unroll 16
    for (int n = 0; n < N * kVectors; ++n) {
      const size_t panel_start = size_t(n / kVectors) * depth * kPanel;
      w[n] = LoadFloats(weights + panel_start + size_t(k) * kPanel + (n % kVectors) * kLanes);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const Vec xk = hn::Set(Floats(), x[size_t(m) * depth + k]);
#pragma GCC unroll 16
      for (int n = 0; n < N * kVectors; ++n) sum[m][n] = hn::MulAdd(xk, w[n], sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    alignas(64) float out[N * kPanel];
#pragma GCC unroll 16
    for (int n = 0; n < N * kVectors; ++n) hn::Store(sum[m][n], Floats(), out + n * kLanes);
    float* y = args.y + size_t(row + m) * args.y_stride + panel * kPanel;
    const int columns = std::min(N * kPanel, args.weight.rows - panel * kPanel);
    if (args.accumulate) {
      for (int i = 0; i < columns; ++i) y[i] += out[i];
    } else {
      for (int i = 0; i < columns; ++i) y[i] = out[i];
    }
  }
}

template <typename W, int N>
HWY_INLINE void TileRows(const LinearArgs& args, int row, int rows, int panel) {
  if (rows == 1) return Tile<W, 1, N>(args, row, panel);
  if (rows == 2) return Tile<W, 2, N>(args, row, panel);
  if constexpr (kWide) {
    if (rows == 3) return Tile<W, 3, N>(args, row, panel);
    if constexpr (N <= kManyRowsPanels) {
      if (rows == 4) return Tile<W, 4, N>(args, row, panel);
      if (rows == 5) return Tile<W, 5, N>(args, row, panel);
      if (rows == 6) return Tile<W, 6, N>(args, row, panel);
    }
  }
}

// All rows of `N` panels, in nearly equal blocks of at most kMaxRows.
template <typename W, int N>
void PanelGroup(const LinearArgs& args, int panel) {
  const int blocks = (args.rows + kMaxRows - 1) / kMaxRows;
  for (int b = 0; b < blocks; ++b) {
    const int begin = args.rows * b / blocks;
    TileRows<W, N>(args, begin, args.rows * (b + 1) / blocks - begin, panel);
  }
}

template <typename W>
void PanelRange(const LinearArgs& args, int begin, int end) {
  int panel = begin;
  if (args.rows <= kFewRows) {
    for (; panel + kFewRowsPanels <= end; panel += kFewRowsPanels) {
      PanelGroup<W, kFewRowsPanels>(args, panel);
    }
  }
  for (; panel + kManyRowsPanels <= end; panel += kManyRowsPanels) {
    PanelGroup<W, kManyRowsPanels>(args, panel);
  }
  for (; panel < end; ++panel) PanelGroup<W, 1>(args, panel);
}

}  // namespace

void Linear(const LinearArgs& args, ThreadPool& pool) {
  // Shares are whole groups of panels, so that no thread is left with narrow tiles.
  constexpr int kGroup = kManyRowsPanels;
  const int panels = args.weight.panels();
  const int groups = (panels + kGroup - 1) / kGroup;
  pool.ParallelFor(groups, [&](int64_t begin, int64_t end) {
    const int first = static_cast<int>(begin) * kGroup;
    const int last = std::min(static_cast<int>(end) * kGroup, panels);
    if (args.weight.dtype == DType::kF32) {
      PanelRange<float>(args, first, last);
    } else {
      PanelRange<uint16_t>(args, first, last);
    }
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Linear);
void Linear(const LinearArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Linear)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
