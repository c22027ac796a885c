// The parts of product.cu: a ring of steps in shared memory, the copies into it, and the
// instructions that multiply a step.
//
// A step is 64 columns of the depth: of the tile's rows of W, and then of its rows of x. The
// weights are the operand with 16 rows of the matrix instruction, and x the one with 8, so a
// product of one row wastes little.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_TILE_H_
#define BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_TILE_H_

#include <type_traits>

#include "kernels/cuda/product/product.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda::product {

using namespace simt;

inline constexpr int kStep = 64;
inline constexpr int kStepBytes = 2 * kStep;  // A row of a step.
inline constexpr int kPieces = 8;             // Pieces of 16 bytes in a row of a step.
inline constexpr int kMaxStages = 8;

// count / per, rounded up.
constexpr int Quotient(int count, int per) { return (count + per - 1) / per; }

// Bytes of a step in the ring. `weight_size` is that of a weight, in bytes.
constexpr size_t StageBytes(int columns, int tokens, int weight_size = 2) {
  return columns * kStep * weight_size + tokens * kStepBytes;
}

// A tile: each of kWarps warps multiplies kHigh · 16 rows of W by kWide · 8 rows of x. A weight has
// two bytes (bf16) or one (int8).
template <int high, int warps, int wide, int weight_size = 2>
struct Tile {
  static constexpr int kHigh = high;
  static constexpr int kWide = wide;
  static constexpr int kWarps = warps;
  static constexpr int kThreads = warps * kWarp;
  static constexpr int kColumns = 16 * high * warps;
  static constexpr int kTokens = 8 * wide;
  static constexpr int kWeightSize = weight_size;
  static constexpr int kWeightRowBytes = kStep * weight_size;  // In a row of a step.
  static constexpr int kWeightBytes = kColumns * kWeightRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kTokens * kStepBytes;
};

// Calls launch(std::integral_constant<int, wide>) for the tile of a plan.
template <typename Launch>
void WithTokens(int tile_tokens, const Launch& launch) {
  switch (tile_tokens) {
    case 8:
      return launch(std::integral_constant<int, 1>());
    case 16:
      return launch(std::integral_constant<int, 2>());
    case 32:
      return launch(std::integral_constant<int, 4>());
    case 64:
      return launch(std::integral_constant<int, 8>());
    default:
      return launch(std::integral_constant<int, 16>());
  }
}

// What a launch computes, as kernel arguments.
struct Work {
  ProductArgs args;
  ProductPlan plan;
  int tiles = 0;        // Tiles of W.
  int range_steps = 0;  // Steps of a range.
  int pitch = 0;        // Bytes of a row of W.
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

// The same for int8 weights, whose rows have half as many bytes.
SIMT_DEVICE uint32_t PlaceInt8(int row, int piece) {
  return static_cast<uint32_t>(row * kStep + ((piece ^ (row / 2 & 3)) << 4));
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

// The copies of a thread for W: pieces of 16 bytes of some rows of a tile.
template <typename T>
class WeightLoader {
 public:
  SIMT_DEVICE explicit WeightLoader(uint32_t ring)
      : piece_(ThreadIndex() % kRowPieces),
        row_(ThreadIndex() / kRowPieces),
        to_(ring + (T::kWeightSize == 1 ? PlaceInt8(row_, piece_) : Place(row_, piece_))) {}

  // From now on, copies rows of this tile.
  SIMT_DEVICE void Begin(const ProductArgs& args, int tile) {
    SIMT_UNROLL
    for (int p = 0; p < kPasses; ++p) {
      rows_[p] = WeightRow(args, T::kColumns, tile, row_ + p * kPassRows);
    }
  }
  // Starts the copies of the step that begins at `column` to offset `stage` of the ring. `matrix`
  // has rows of `pitch` bytes.
  SIMT_DEVICE void Copy(const void* matrix, int pitch, int column, uint32_t stage) const {
    const int first = column * T::kWeightSize + piece_ * 16;
    SIMT_UNROLL
    for (int p = 0; p < kPasses; ++p) {
      const bool valid = rows_[p] >= 0 && first < pitch;
      const int64_t from = valid ? static_cast<int64_t>(rows_[p]) * pitch + first : 0;
      CopyAsync16(to_ + stage + p * kPassRows * T::kWeightRowBytes,
                  static_cast<const char*>(matrix) + from, valid);
    }
  }

 private:
  static constexpr int kRowPieces = T::kWeightRowBytes / 16;
  static constexpr int kPassRows = T::kThreads / kRowPieces;
  static constexpr int kPasses = T::kColumns / kPassRows;
  static_assert(kPassRows % 8 == 0 && T::kColumns % kPassRows == 0);

  const int piece_, row_;
  const uint32_t to_;
  int rows_[kPasses];  // Rows of W; −1: none.
};

// Starts the copies of a thread. A step past the block's last copies nothing.
template <typename T>
class Loader {
 public:
  SIMT_DEVICE Loader(const Work& work, const Share& share, uint32_t ring)
      : work_(work),
        share_(share),
        weights_(ring),
        piece_(ThreadIndex() % kPieces),
        row_(ThreadIndex() / kPieces),
        to_(ring + T::kWeightBytes + Place(row_, piece_)) {}

  SIMT_DEVICE void Weights(const Cursor& at) {
    if (at.tile >= work_.tiles) return;
    if (at.step == 0) weights_.Begin(work_.args, at.tile);
    weights_.Copy(work_.args.weight, work_.pitch, Column(at), at.slot * T::kStageBytes);
  }

  SIMT_DEVICE void Tokens(const Cursor& at) {
    if (at.tile >= work_.tiles) return;
    const ProductArgs& args = work_.args;
    const int column = Column(at) + piece_ * 8;
    const uint32_t to = to_ + at.slot * T::kStageBytes;
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
  static constexpr int kTokenPasses = (T::kTokens + kPassRows - 1) / kPassRows;

  // The first column of the step.
  SIMT_DEVICE int Column(const Cursor& at) const { return (share_.first_step + at.step) * kStep; }

  const Work& work_;
  const Share& share_;
  WeightLoader<T> weights_;
  const int piece_, row_;  // What the thread copies of x.
  const uint32_t to_;
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

// The same for 8 rows of x, all 64 columns.
SIMT_DEVICE void LoadStepTokens(uint32_t tokens, uint32_t (&words)[kStep / 16][2]) {
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    uint32_t loaded[4];
    LoadMatrices(loaded, tokens + Place(Lane() % 8, 4 * half + Lane() / 8));
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) words[2 * half + i / 2][i % 2] = loaded[i];
  }
}

// Adds a step to the warp's sums. `weights` is the address of its first row of W.
template <typename T>
SIMT_DEVICE void MultiplyStep(uint32_t weights, uint32_t tokens, WarpSums<T>& sums) {
  const int row = Lane() / 8 % 2 * 8 + Lane() % 8;
  uint32_t x[T::kWide == 1 ? 4 : T::kWide][2];
  if constexpr (T::kWide == 1) LoadStepTokens(tokens, x);
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
