// The mixture of experts: choosing experts, grouping rows by expert, the matrix products of the
// groups, and adding up the results. No size that depends on the data leaves the device, so that
// the kernels can be recorded as a graph.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kMaxPerLane = kMaxExperts / kWarp;
constexpr int kColumns = 2;  // Columns of a product that a warp computes at once.
constexpr int kMaxTile = 8;  // Rows of a product that a warp computes at once.

// A candidate of a choice. `id` is -1 if there is none.
struct Candidate {
  float value;
  int id;
};
SIMT_DEVICE bool Better(const Candidate& a, const Candidate& b) {
  if (a.id < 0 || b.id < 0) return a.id >= 0;
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}
// Returns the best candidate of the warp to all of its lanes.
SIMT_DEVICE Candidate BestOfWarp(Candidate best) {
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Candidate other = {ShuffleXor(best.value, step), ShuffleXor(best.id, step)};
    if (Better(other, best)) best = other;
  }
  return best;
}

// Returns the lane's logits that were chosen, as bits: bit c is expert c * 32 + lane.
SIMT_DEVICE uint32_t ChooseExperts(const float (&logits)[kMaxPerLane], const RouteArgs& args) {
  uint32_t chosen = 0;
  for (int choice = 0; choice < args.chosen; ++choice) {
    Candidate best = {0, -1};
    SIMT_UNROLL
    for (int c = 0; c < kMaxPerLane; ++c) {
      const int id = c * kWarp + Lane();
      const Candidate candidate = {logits[c], id};
      const bool free = id < args.experts_total && (chosen >> c & 1u) == 0;
      if (free && Better(candidate, best)) best = candidate;
    }
    best = BestOfWarp(best);
    if (best.id % kWarp == Lane()) chosen |= 1u << (best.id / kWarp);
  }
  return chosen;
}

// One warp per row. Lane l holds the logits l, l + 32, ….
SIMT_KERNEL(kWarp, 1)
void RouteKernel(RouteArgs args) {
  BeginKernel();
  const int64_t row = Block().x;
  const float* from = args.logits + row * args.experts_total;
  float logits[kMaxPerLane], largest = -Infinity();
  SIMT_UNROLL
  for (int c = 0; c < kMaxPerLane; ++c) {
    const int id = c * kWarp + Lane();
    const float value = id < args.experts_total ? from[id] : -Infinity();
    logits[c] = value == value ? value : -Infinity();  // A NaN is never better than a number.
    largest = Max(largest, logits[c]);
  }
  largest = WarpMax(largest);
  const uint32_t chosen = ChooseExperts(logits, args);
  float total = 0;
  SIMT_UNROLL
  for (int c = 0; c < kMaxPerLane; ++c) {
    const bool counted = c * kWarp + Lane() < args.experts_total;
    logits[c] = counted ? Exp(logits[c] - largest) : 0.0f;
    if (!args.normalize || (chosen >> c & 1u) != 0) total += logits[c];
  }
  total = WarpSum(total);
  int64_t place = row * args.chosen;
  SIMT_UNROLL
  for (int c = 0; c < kMaxPerLane; ++c) {
    const bool mine = (chosen >> c & 1u) != 0;
    const uint32_t lanes = Ballot(mine);
    if (mine) {
      const int64_t at = place + PopCount(lanes & ((1u << Lane()) - 1));
      args.experts[at] = c * kWarp + Lane();
      args.weights[at] = logits[c] / total;
    }
    place += PopCount(lanes);
  }
}

// One block. Thread t counts and places the choices of experts t, t + kThreads, ….
SIMT_KERNEL(kThreads, 1)
void GroupKernel(GroupArgs args) {
  BeginKernel();
  int32_t* counts = reinterpret_cast<int32_t*>(DynamicShared());  // [E]
  const int choices = args.rows.used[0] * args.chosen;
  for (int e = ThreadIndex(); e < args.experts_total; e += BlockThreads()) {
    int count = 0;
    for (int i = 0; i < choices; ++i) count += args.experts[i] == e ? 1 : 0;
    counts[e] = count;
  }
  SyncBlock();
  if (ThreadIndex() == 0) {
    int begin = 0, touched = 0;
    for (int e = 0; e < args.experts_total; ++e) {
      const int count = counts[e];
      args.begins[e] = counts[e] = begin;
      begin += count;
      touched += count > 0 ? 1 : 0;
    }
    args.begins[args.experts_total] = begin;
    *args.touched = touched;
  }
  SyncBlock();
  for (int e = ThreadIndex(); e < args.experts_total; e += BlockThreads()) {
    int place = counts[e];
    for (int i = 0; i < choices; ++i) {
      if (args.experts[i] != e) continue;
      args.sources[place] = i / args.chosen;
      args.places[i] = place++;
    }
  }
  const int all = args.rows.row_capacity * args.chosen;
  for (int i = choices + ThreadIndex(); i < all; i += BlockThreads()) args.places[i] = -1;
}

// 16 bytes of a row as floats.
SIMT_DEVICE void Unpack(const Bytes16& bytes, float (&values)[4]) {
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) values[i] = AsFloat(bytes.word[i]);
}
SIMT_DEVICE void Unpack(const Bytes16& bytes, float (&values)[8]) {
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = AsFloat(bytes.word[i] << 16);
    values[2 * i + 1] = AsFloat(bytes.word[i] & 0xFFFF0000u);
  }
}

// The rows and columns that a warp multiplies: places [place, place + rows) of an expert's group by
// columns [column, column + kColumns) of its matrix.
struct Tile {
  int expert;
  int place;
  int rows;
  int column;
};

// The warp divides the depth: lane l takes 16 bytes at l, l + 32, …. kRows >= tile.rows.
template <typename T, int kRows>
SIMT_DEVICE void MultiplyTile(const ExpertProductArgs& args, const Tile& tile) {
  constexpr int kPer = 16 / sizeof(T);
  const T* x[kRows];
  const T* w[kColumns];
  SIMT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int place = tile.place + Min(r, tile.rows - 1);
    const int64_t row = args.sources == nullptr ? place : args.sources[place];
    x[r] = static_cast<const T*>(args.x) + row * args.depth;
  }
  SIMT_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    const int64_t column = Min(tile.column + c, args.columns - 1);
    w[c] = static_cast<const T*>(args.weight) +
           (static_cast<int64_t>(tile.expert) * args.columns + column) * args.depth;
  }
  float sums[kRows][kColumns] = {};
  for (int k = Lane() * kPer; k < args.depth; k += kWarp * kPer) {
    float weights[kColumns][kPer];
    SIMT_UNROLL
    for (int c = 0; c < kColumns; ++c) Unpack(LoadBytes16(w[c] + k), weights[c]);
    SIMT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float values[kPer];
      Unpack(LoadBytes16(x[r] + k), values);
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

template <typename T>
SIMT_KERNEL(kThreads, 1)
void ExpertProductKernel(ExpertProductArgs args) {
  BeginKernel();
  Tile tile;
  tile.expert = Block().y;
  tile.column = (Block().x * BlockWarps() + Warp()) * kColumns;
  if (tile.column >= args.columns) return;
  const int end = args.begins[tile.expert + 1];
  for (tile.place = args.begins[tile.expert]; tile.place < end; tile.place += kMaxTile) {
    tile.rows = Min(kMaxTile, end - tile.place);
    if (tile.rows == 1) {
      MultiplyTile<T, 1>(args, tile);
    } else if (tile.rows <= 4) {
      MultiplyTile<T, 4>(args, tile);
    } else {
      MultiplyTile<T, kMaxTile>(args, tile);
    }
  }
}

SIMT_KERNEL(kThreads, 1)
void CombineKernel(CombineArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  const int64_t row = Block().y;
  float x = args.x[row * args.width + i];
  for (int j = 0; j < args.chosen; ++j) {
    const int64_t at = row * args.chosen + j;
    const int64_t place = args.places[at];
    if (place >= 0) x += args.weights[at] * args.y[place * args.width + i];
  }
  args.x[row * args.width + i] = x;
}

int Quotient(int count, int per) { return (count + per - 1) / per; }

}  // namespace

void Route(const RouteArgs& args, Stream& stream) {
  Launch(stream, RouteKernel, {{args.rows}, kWarp}, args);
}

void Group(const GroupArgs& args, Stream& stream) {
  const size_t shared = args.experts_total * sizeof(int32_t);
  Launch(stream, GroupKernel, {{1}, kThreads, shared}, args);
}

void ExpertProduct(const ExpertProductArgs& args, Stream& stream) {
  const int blocks = Quotient(args.columns, kThreads / kWarp * kColumns);
  const LaunchShape shape = {{blocks, args.experts_total}, kThreads};
  if (args.dtype == DType::kF32) {
    Launch(stream, ExpertProductKernel<float>, shape, args);
  } else {
    Launch(stream, ExpertProductKernel<uint16_t>, shape, args);
  }
}

void Combine(const CombineArgs& args, Stream& stream) {
  Launch(stream, CombineKernel, {{Quotient(args.width, kThreads), args.rows}, kThreads}, args);
}

}  // namespace bastion::kernels::cuda
