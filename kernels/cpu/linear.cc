// linear(): y = x Wᵀ over packed panels.
//
// A tile is M rows by N panels of outputs, held in registers. Its loop runs over all of K, so every
// output is one chain of fused multiply-adds and does not depend on M. The weights are loaded and
// widened to floats once for all rows of a tile. With few rows, a tile has several panels, so that
// several streams of weights are read at once. The rows of a tile are first copied next to each
// other: in x, they may be a multiple of 4 KiB apart and would evict each other from the cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>

#include "hwy/aligned_allocator.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

inline constexpr bool kWide = kLanes == kWidest;
inline constexpr int kMaxRows = kWide ? 12 : 2;     // Maximum rows of a tile.
inline constexpr int kPanelVectors = 2 * kVectors;  // Registers for one panel row.
inline constexpr int kChunk = kWidest;  // Rows of x are interleaved in chunks of this many floats.
inline constexpr size_t kLineBytes = 64;

// Panels of a tile of `m` rows. The registers have no room for the sums of more panels.
constexpr int PanelsFor(int m) {
  if (!kWide) return m == 1 ? 2 : 1;
  return m <= 2 ? 4 : m <= 6 ? 2 : 1;
}

// T of PackedMatrix: weights per word of a panel.
template <typename W>
inline constexpr int kPerWord = 4 / sizeof(W);

// Weights of each word that are widened to floats at a time. The registers have no room for more.
template <typename W>
inline constexpr int kWidened = kWide ? kPerWord<W> : 1;

// Loads weight `part` of each word in a row of words (one word per column), as floats.
HWY_INLINE void LoadRow(const float* words, int, Vec* w) {
#pragma GCC unroll 32
  for (int v = 0; v < kPanelVectors; ++v) w[v] = hn::LoadU(Floats(), words + v * kLanes);
}
HWY_INLINE void LoadRow(const uint16_t* words, int part, Vec* w) {
  const hn::RebindToUnsigned<Floats> lanes;
  const auto upper = hn::Set(lanes, 0xFFFF0000u);
#pragma GCC unroll 32
  for (int v = 0; v < kPanelVectors; ++v) {
    const auto both = hn::LoadU(lanes, reinterpret_cast<const uint32_t*>(words) + v * kLanes);
    w[v] = hn::BitCast(Floats(), part == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, upper));
  }
}

// Stores `columns` floats of a tile's row to y, or adds them to y.
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

// The rows of x in nearly equal blocks of m <= kMaxRows rows. A block is [K / 16] x [m] x [16],
// with K padded with zeros to depth().
class RowBlocks {
 public:
  void Assign(const LinearArgs& args) {
    rows_ = args.rows;
    depth_ = args.weight.depth();
    blocks_ = (rows_ + kMaxRows - 1) / kMaxRows;
    data_ = args.x;
    if (rows_ == 1 && args.weight.columns == depth_) return;  // x already has this layout.
    const size_t elements = size_t(rows_) * depth_;
    if (elements > capacity_) {
      storage_ = hwy::AllocateAligned<float>(elements);
      capacity_ = elements;
    }
    data_ = storage_.get();
    for (int b = 0; b < blocks_; ++b) Copy(args, b);
  }

  [[nodiscard]] int blocks() const { return blocks_; }
  [[nodiscard]] int first_row(int block) const { return rows_ * block / blocks_; }
  [[nodiscard]] int rows(int block) const { return first_row(block + 1) - first_row(block); }
  [[nodiscard]] const float* block(int b) const { return data_ + size_t(first_row(b)) * depth_; }

 private:
  void Copy(const LinearArgs& args, int b) {
    const int columns = args.weight.columns, m = rows(b);
    for (int i = 0; i < m; ++i) {
      const float* from = args.x + size_t(first_row(b) + i) * columns;
      float* to = storage_.get() + size_t(first_row(b)) * depth_ + i * kChunk;
      int k = 0;
      for (; k + kChunk <= columns; k += kChunk, to += m * kChunk) {
        for (int v = 0; v < kChunk; v += kLanes) {
          hn::Store(hn::LoadU(Floats(), from + k + v), Floats(), to + v);
        }
      }
      for (; k < depth_; k += kChunk, to += m * kChunk) {
        float* rest = std::copy(from + std::min(k, columns), from + columns, to);
        std::fill(rest, to + kChunk, 0.0f);
      }
    }
  }

  const float* data_ = nullptr;
  hwy::AlignedFreeUniquePtr<float[]> storage_;
  size_t capacity_ = 0;
  int rows_ = 0, depth_ = 0, blocks_ = 0;
};

// The inputs that all tiles of one call share.
struct Job {
  const LinearArgs& args;
  const RowBlocks& rows;
};

// Multiplies one row of words in each of N panels by every row of a tile and adds the products to
// `sum`.
template <typename W, int M, int N>
HWY_INLINE void Step(const W* words, size_t panel_elements, const float* x,
                     Vec (&sum)[M][N * kPanelVectors]) {
#pragma GCC unroll 2
  for (int first = 0; first < kPerWord<W>; first += kWidened<W>) {
    Vec w[kWidened<W>][N * kPanelVectors];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 2
      for (int i = 0; i < kWidened<W>; ++i) {
        LoadRow(words + n * panel_elements, first + i, w[i] + n * kPanelVectors);
      }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
      for (int i = 0; i < kWidened<W>; ++i) {
        const Vec xk = hn::Set(Floats(), x[m * kChunk + first + i]);
#pragma GCC unroll 32
        for (int v = 0; v < N * kPanelVectors; ++v) sum[m][v] = hn::MulAdd(xk, w[i][v], sum[m][v]);
      }
    }
  }
}

// Multiplies the M rows of a block by N panels, starting at `panel`.
template <typename W, int M, int N>
void Tile(const Job& job, int block, int panel) {
  constexpr int V = N * kPanelVectors;
  constexpr int kWordRow = kPanel * kPerWord<W>;  // Elements per row of words.
  constexpr int kAhead =
      cpu::kPrefetchBytes / (kPanel * sizeof(W));  // Rows of k to prefetch ahead.
  const LinearArgs& args = job.args;
  const int depth = args.weight.depth();
  const size_t panel_elements = size_t(depth) * kPanel;
  const W* words = static_cast<const W*>(args.weight.data) + panel * panel_elements;
  const float* x = job.rows.block(block);
  Vec sum[M][V];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) sum[m][v] = hn::Zero(Floats());
  }
  for (int k = 0; k < depth; k += kChunk, x += M * kChunk) {
    // The next panel in memory belongs to the same tile. Near the end of a panel, prefetch N - 1
    // panels further ahead, where the next tile begins.
    const size_t next_tile = k + kAhead < depth ? 0 : (N - 1) * panel_elements;
    const W* ahead = words + size_t{kAhead} * kPanel + next_tile;
    for (int step = 0; step < kChunk; step += kPerWord<W>, words += kWordRow) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        for (size_t line = 0; line < kWordRow * sizeof(W); line += kLineBytes) {
          hwy::Prefetch(reinterpret_cast<const char*>(ahead + n * panel_elements) + line);
        }
      }
      ahead += kWordRow;
      Step<W, M, N>(words, panel_elements, x + step, sum);
    }
  }
  const int columns = std::min(N * kPanel, args.weight.rows - panel * kPanel);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    float* y = args.y + size_t(job.rows.first_row(block) + m) * args.y_stride + panel * kPanel;
    StoreRow<V>(sum[m], y, columns, args.accumulate);
  }
}

// Multiplies the M rows of a block by the panels [begin, end). A tile takes a group of panels; the
// groups have nearly equal sizes.
template <typename W, int M>
void TileRow(const Job& job, int block, int begin, int end) {
  constexpr int kGroup = PanelsFor(M);
  const int groups = (end - begin + kGroup - 1) / kGroup;
  for (int g = 0; g < groups; ++g) {
    const int first = begin + (end - begin) * g / groups;
    switch (begin + (end - begin) * (g + 1) / groups - first) {
      case 1:
        Tile<W, M, 1>(job, block, first);
        break;
      case 2:
        if constexpr (kGroup >= 2) Tile<W, M, 2>(job, block, first);
        break;
      case 3:
        if constexpr (kGroup >= 3) Tile<W, M, 3>(job, block, first);
        break;
      default:
        if constexpr (kGroup >= 4) Tile<W, M, 4>(job, block, first);
        break;
    }
  }
}

// Multiplies a block of at most M rows by the panels [begin, end).
template <typename W, int M>
void TileRowOf(const Job& job, int block, int begin, int end) {
  if (job.rows.rows(block) == M) return TileRow<W, M>(job, block, begin, end);
  if constexpr (M > 1) TileRowOf<W, M - 1>(job, block, begin, end);
}

// Multiplies all rows by the panels [begin, end). If there are several blocks of rows, each panel
// is multiplied by all of them before the next panel is read, so that it stays in the cache.
template <typename W>
void PanelRange(const Job& job, int begin, int end) {
  const int step = job.rows.blocks() == 1 ? end - begin : 1;
  for (int panel = begin; panel < end; panel += step) {
    for (int b = 0; b < job.rows.blocks(); ++b) {
      TileRowOf<W, kMaxRows>(job, b, panel, panel + step);
    }
  }
}

}  // namespace

void LinearFloat(const LinearArgs& args, ThreadPool& pool) {
  static thread_local RowBlocks rows;
  rows.Assign(args);
  const Job job = {args, rows};  // All threads use the caller's `rows`.
  pool.ParallelFor(args.weight.panels(), PanelsFor(1), [&](int64_t begin, int64_t end) {
    if (args.weight.format == WeightFormat::kF32) {
      PanelRange<float>(job, static_cast<int>(begin), static_cast<int>(end));
    } else {
      PanelRange<uint16_t>(job, static_cast<int>(begin), static_cast<int>(end));
    }
    cpu::AddBias(args, begin, end);
  });
}

int VectorFloats() { return kLanes; }

void AddBias(const LinearArgs& args, int64_t begin, int64_t end) {
  const int first = static_cast<int>(begin) * kPanel;
  const int columns = std::min(static_cast<int>(end) * kPanel, args.weight.rows) - first;
  const float* bias = args.bias + first;
  for (int row = 0; row < args.rows; ++row) {
    float* y = args.y + size_t(row) * args.y_stride + first;
    int i = 0;
    for (; i + kLanes <= columns; i += kLanes) {
      hn::StoreU(hn::Add(LoadFloats(y + i), LoadFloats(bias + i)), Floats(), y + i);
    }
    for (; i < columns; ++i) y[i] += bias[i];
  }
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(LinearFloat);
HWY_EXPORT(VectorFloats);
HWY_EXPORT(AddBias);
int VectorFloats() { return HWY_DYNAMIC_DISPATCH(VectorFloats)(); }
void LinearFloat(const LinearArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(LinearFloat)(args, pool);
}
void AddBias(const LinearArgs& args, int64_t begin, int64_t end) {
  if (args.bias != nullptr) HWY_DYNAMIC_DISPATCH(AddBias)(args, begin, end);
}
}  // namespace bastion::kernels::cpu
#endif
