// The products of experts in fp32, and the sum of what a row's experts returned. expert_product.cu
// has the products in bf16.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kColumns = 2;   // Columns of a product that a warp computes at once.
constexpr int kMaxTile = 8;   // Rows of a product that a warp computes at once.
constexpr int kPer = 4;       // Floats that a lane loads at once.
constexpr int kTogether = 8;  // Choices that a thread loads at once.

// The rows and columns that a warp multiplies: places [place, place + rows) of an expert's group by
// columns [column, column + kColumns) of its matrix.
struct Tile {
  int expert;
  int place;
  int rows;
  int column;
};

SIMT_DEVICE void LoadFloats(const float* at, float (&values)[kPer]) {
  const Bytes16 bytes = LoadBytes16(at);
  SIMT_UNROLL
  for (int i = 0; i < kPer; ++i) values[i] = AsFloat(bytes.word[i]);
}

// The warp divides the depth: lane l takes 16 bytes at l, l + 32, …. kRows >= tile.rows.
template <int kRows>
SIMT_DEVICE void MultiplyTile(const ExpertProductF32Args& args, const Tile& tile) {
  const float* x[kRows];
  const float* w[kColumns];
  SIMT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int place = tile.place + Min(r, tile.rows - 1);
    const int64_t row = args.sources == nullptr ? place : args.sources[place];
    x[r] = args.x + row * args.depth;
  }
  SIMT_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    const int64_t column = Min(tile.column + c, args.columns - 1);
    w[c] = args.weight + (static_cast<int64_t>(tile.expert) * args.columns + column) * args.depth;
  }
  float sums[kRows][kColumns] = {};
  for (int k = Lane() * kPer; k < args.depth; k += kWarp * kPer) {
    float weights[kColumns][kPer];
    SIMT_UNROLL
    for (int c = 0; c < kColumns; ++c) LoadFloats(w[c] + k, weights[c]);
    SIMT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float values[kPer];
      LoadFloats(x[r] + k, values);
      SIMT_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        SIMT_UNROLL
        for (int i = 0; i < kPer; ++i) sums[r][c] += values[i] * weights[c][i];
      }
    }
  }
  SIMT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    SIMT_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const float sum = WarpSum(sums[r][c]);
      const int column = tile.column + c;
      if (Lane() == 0 && r < tile.rows && column < args.columns) {
        args.y[static_cast<int64_t>(tile.place + r) * args.columns + column] = sum;
      }
    }
  }
}

SIMT_KERNEL(kThreads, 1)
void ExpertProductF32Kernel(ExpertProductF32Args args) {
  BeginKernel();
  Tile tile;
  tile.expert = Block().y;
  tile.column = (Block().x * BlockWarps() + Warp()) * kColumns;
  if (tile.column >= args.columns) return;
  const int end = args.begins[tile.expert + 1];
  for (tile.place = args.begins[tile.expert]; tile.place < end; tile.place += kMaxTile) {
    tile.rows = Min(kMaxTile, end - tile.place);
    if (tile.rows == 1) {
      MultiplyTile<1>(args, tile);
    } else if (tile.rows <= 4) {
      MultiplyTile<4>(args, tile);
    } else {
      MultiplyTile<kMaxTile>(args, tile);
    }
  }
}

SIMT_KERNEL(kThreads, 1)
void CombineKernel(CombineArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  const int64_t row = Block().y;
  const int64_t choices = row * args.chosen;
  float x = args.x[row * args.width + i];
  for (int first = 0; first < args.chosen; first += kTogether) {
    float y[kTogether], weights[kTogether];
    bool valid[kTogether];
    SIMT_UNROLL
    for (int j = 0; j < kTogether; ++j) {
      const int64_t place = first + j < args.chosen ? args.places[choices + first + j] : -1;
      valid[j] = place >= 0;
      y[j] = valid[j] ? args.y[place * args.width + i] : 0.0f;
      weights[j] = valid[j] ? args.weights[choices + first + j] : 0.0f;
    }
    SIMT_UNROLL
    for (int j = 0; j < kTogether; ++j) {
      if (valid[j]) x += weights[j] * y[j];
    }
  }
  args.x[row * args.width + i] = x;
}

int Quotient(int count, int per) { return (count + per - 1) / per; }

}  // namespace

void ExpertProductF32(const ExpertProductF32Args& args, Stream& stream) {
  const int blocks = Quotient(args.columns, kThreads / kWarp * kColumns);
  Launch(stream, ExpertProductF32Kernel, {{blocks, args.experts_total}, kThreads}, args);
}

void Combine(const CombineArgs& args, Stream& stream) {
  Launch(stream, CombineKernel, {{Quotient(args.width, kThreads), args.rows}, kThreads}, args);
}

}  // namespace bastion::kernels::cuda
