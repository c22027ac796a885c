// The parts of product.cu: a ring of steps in shared memory, the copies into it, and the
// instructions that multiply a step.
//
// A step is 64 columns of the depth: of the tile's rows of W, and then of its rows of x. The
// weights are the operand with 16 rows of the matrix instruction, and x the one with 8, so a
// product of one row wastes little.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_TILE_H_
#define BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_TILE_H_

#include "kernels/cuda/product/product.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda::product {

using namespace simt;

inline constexpr int kStep = 64;
inline constexpr int kStepBytes = 2 * kStep;  // A row of a step.
inline constexpr int kPieces = 8;             // Pieces of 16 bytes in a row of a step.
inline constexpr int kMaxStages = 8;

// Bytes of a step in the ring.
constexpr size_t StageBytes(int columns, int tokens) { return (columns + tokens) * kStepBytes; }

// A tile: each of kWarps warps multiplies kHigh · 16 rows of W by kWide · 8 rows of x.
template <int high, int warps, int wide>
struct Tile {
  static constexpr int kHigh = high;
  static constexpr int kWide = wide;
  static constexpr int kWarps = warps;
  static constexpr int kThreads = warps * kWarp;
  static constexpr int kColumns = 16 * high * warps;
  static constexpr int kTokens = 8 * wide;
  static constexpr int kWeightBytes = kColumns * kStepBytes;
  static constexpr int kStageBytes = (kColumns + kTokens) * kStepBytes;
};

// What a launch computes, as kernel arguments.
struct Work {
  ProductArgs args;
  ProductPlan plan;
  int tiles = 0;        // Tiles of W.
  int range_steps = 0;  // Steps of a range.
};

// What a block computes: the steps [first_step, first_step + steps) of its tiles.
struct Share {
  int tile;  // The first tile of W.
  int first_token;
  int range;
  int first_step;
  int steps;
};

// The blocks of the same tile of W follow each other, so that they share it in the cache.
SIMT_DEVICE Share ShareOf(const Work& work, int tile_tokens) {
  Share share;
  const int parts = work.plan.split ? work.plan.ranges : 1;
  share.range = Block().y % parts;
  share.tile = Block().y / parts;
  share.first_token = Block().x * tile_tokens;
  share.first_step = share.range * work.range_steps;
  share.steps = work.range_steps * work.plan.ranges / parts;
  return share;
}

// Where the ring has the piece of a row. The order of the pieces depends on the row, so that the
// eight rows of an 8 x 8 matrix (LoadMatrices) lie in different banks.
SIMT_DEVICE uint32_t Place(int row, int piece) {
  return static_cast<uint32_t>(row * kStepBytes + ((piece ^ (row & 7)) << 4));
}

// The row of W that row `row` of a tile is; -1 if there is none. A gated tile alternates between 8
// rows of the first half and their 8 rows of the second, so that a lane gets both (StoreGated).
SIMT_DEVICE int WeightRow(const ProductArgs& args, int tile_columns, int tile, int row) {
  if (args.activation == nullptr) {
    const int column = tile * tile_columns + row;
    return column < (args.outputs > 0 ? args.outputs : args.columns) ? column : -1;
  }
  const int width = args.columns / 2;
  const int column = tile * (tile_columns / 2) + row / 16 * 8 + row % 8;
  return column < width ? column + (row % 16 < 8 ? 0 : width) : -1;
}

// The steps of a block in the order in which they are copied, and the slots of the ring.
struct Cursor {
  int tile;
  int step = 0;
  int slot = 0;

  SIMT_DEVICE void Advance(const Work& work, const Share& share) {
    if (++slot == work.plan.stages) slot = 0;
    if (++step < share.steps) return;
    step = 0;
    tile += work.plan.groups;
  }
};

// Starts the copies of a thread: pieces of 16 bytes. A step past the block's last copies nothing.
template <typename T>
class Loader {
 public:
  SIMT_DEVICE Loader(const Work& work, const Share& share, uint32_t ring)
      : work_(work),
        share_(share),
        piece_(ThreadIndex() % kPieces),
        row_(ThreadIndex() / kPieces),
        to_(ring + Place(row_, piece_)) {}

  SIMT_DEVICE void Weights(const Cursor& at) {
    if (at.tile >= work_.tiles) return;
    const ProductArgs& args = work_.args;
    if (at.step == 0) {
      SIMT_UNROLL
      for (int p = 0; p < kPasses; ++p) {
        rows_[p] = WeightRow(args, T::kColumns, at.tile, row_ + p * kPassRows);
      }
    }
    const int column = Column(at);
    const uint32_t to = to_ + at.slot * T::kStageBytes;
    SIMT_UNROLL
    for (int p = 0; p < kPasses; ++p) {
      const bool valid = rows_[p] >= 0 && column < args.depth;
      const int64_t from = valid ? static_cast<int64_t>(rows_[p]) * args.depth + column : 0;
      CopyAsync16(to + p * kPassRows * kStepBytes, args.weight + from, valid);
    }
  }

  SIMT_DEVICE void Tokens(const Cursor& at) {
    if (at.tile >= work_.tiles) return;
    const ProductArgs& args = work_.args;
    const int column = Column(at);
    const uint32_t to = to_ + at.slot * T::kStageBytes + T::kWeightBytes;
    SIMT_UNROLL
    for (int p = 0; p < kTokenPasses; ++p) {
      if (row_ + p * kPassRows >= T::kTokens) return;
      const int token = share_.first_token + row_ + p * kPassRows;
      const bool valid = token < args.rows && column < args.depth;
      const int64_t from = valid ? static_cast<int64_t>(token) * args.depth + column : 0;
      CopyAsync16(to + p * kPassRows * kStepBytes, args.x + from, valid);
    }
  }

 private:
  static constexpr int kPassRows = T::kThreads / kPieces;
  static constexpr int kPasses = T::kColumns / kPassRows;
  static constexpr int kTokenPasses = (T::kTokens + kPassRows - 1) / kPassRows;
  static_assert(kPassRows % 8 == 0 && T::kColumns % kPassRows == 0);

  // The column of x and W that the thread copies.
  SIMT_DEVICE int Column(const Cursor& at) const {
    return (share_.first_step + at.step) * kStep + piece_ * 8;
  }

  const Work& work_;
  const Share& share_;
  const int piece_, row_;
  const uint32_t to_;
  int rows_[kPasses];  // Rows of W in the current tile.
};

// Waits until at most `pending` committed groups of copies are unfinished.
SIMT_DEVICE void WaitForCopies(int pending) {
  switch (pending) {
    case 0:
      return WaitCopies<0>();
    case 1:
      return WaitCopies<1>();
    case 2:
      return WaitCopies<2>();
    case 3:
      return WaitCopies<3>();
    case 4:
      return WaitCopies<4>();
    case 5:
      return WaitCopies<5>();
    default:
      return WaitCopies<kMaxStages - 2>();
  }
}

// A warp's sums, distributed over its lanes as MatrixMultiplyAdd says.
template <typename T>
struct WarpSums {
  float at[T::kHigh][T::kWide][4];

  SIMT_DEVICE void Clear() {
    SIMT_UNROLL
    for (auto& row : at) {
      SIMT_UNROLL
      for (auto& tile : row) {
        SIMT_UNROLL
        for (float& sum : tile) sum = 0;
      }
    }
  }
  SIMT_DEVICE void Add(const WarpSums& more) {
    SIMT_UNROLL
    for (int i = 0; i < T::kHigh; ++i) {
      SIMT_UNROLL
      for (int j = 0; j < T::kWide; ++j) {
        SIMT_UNROLL
        for (int q = 0; q < 4; ++q) at[i][j][q] += more.at[i][j][q];
      }
    }
  }
};

// The x of 16 columns, two words for each 8 rows. LoadMatrices loads four 8 x 8 matrices: two of 8
// columns for each of two groups of 8 rows.
template <typename T>
SIMT_DEVICE void LoadTokens(uint32_t tokens, int part, uint32_t (&words)[T::kWide][2]) {
  const int row = Lane() / 16 * 8 + Lane() % 8, piece = 2 * part + Lane() / 8 % 2;
  SIMT_UNROLL
  for (int j = 0; j < T::kWide; j += 2) {
    uint32_t loaded[4];
    LoadMatrices(loaded, tokens + Place(row, piece) + j * 8 * kStepBytes);
    words[j][0] = loaded[0];
    words[j][1] = loaded[1];
    words[j + 1][0] = loaded[2];
    words[j + 1][1] = loaded[3];
  }
}

// Adds a step to the warp's sums. `weights` is the address of its first row of W.
template <typename T>
SIMT_DEVICE void MultiplyStep(uint32_t weights, uint32_t tokens, WarpSums<T>& sums) {
  const int row = Lane() / 8 % 2 * 8 + Lane() % 8;
  uint32_t x[T::kWide == 1 ? 4 : T::kWide][2];
  if constexpr (T::kWide == 1) {  // Two loads have all 64 columns of 8 rows.
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      uint32_t loaded[4];
      LoadMatrices(loaded, tokens + Place(Lane() % 8, 4 * half + Lane() / 8));
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) x[2 * half + i / 2][i % 2] = loaded[i];
    }
  }
  SIMT_UNROLL_BY(T::kWide > 8 ? 1 : kStep / 16)  // Wide tiles have no registers to spare.
  for (int part = 0; part < kStep / 16; ++part) {
    if constexpr (T::kWide > 1) LoadTokens<T>(tokens, part, x);
    SIMT_UNROLL
    for (int i = 0; i < T::kHigh; ++i) {
      uint32_t w[4];
      LoadMatrices(w, weights + Place(row, 2 * part + Lane() / 16) + i * 16 * kStepBytes);
      SIMT_UNROLL
      for (int j = 0; j < T::kWide; ++j) {
        const auto& pair = x[T::kWide == 1 ? part : j];
        MatrixMultiplyAdd(sums.at[i][j], w, pair[0], pair[1]);
      }
    }
  }
}

}  // namespace bastion::kernels::cuda::product

#endif  // BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_TILE_H_
