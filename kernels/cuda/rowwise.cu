// Kernels that work row by row: embedding, norms, activations, biases.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/product/add_ranges.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kNormThreads = 512;
constexpr int kHeld = 8;  // Elements of a normed row that a thread keeps in registers.

// Returns the sum of `value` over the block to all of its threads. `partial` [warps] is shared
// memory.
SIMT_DEVICE float BlockSum(float value, float* partial) {
  value = WarpSum(value);
  if (Lane() == 0) partial[Warp()] = value;
  SyncBlock();
  float sum = 0;
  for (int warp = 0; warp < BlockWarps(); ++warp) sum += partial[warp];
  return sum;
}

template <typename Table>
SIMT_KERNEL(kThreads, 1)
void EmbedKernel(EmbedArgs args) {
  BeginKernel();
  const int row = Block().x;
  const Table* table = static_cast<const Table*>(args.table);
  const int64_t from = static_cast<int64_t>(args.rows.tokens[row]) * args.width;
  for (int i = ThreadIndex(); i < args.width; i += BlockThreads()) {
    args.y[static_cast<int64_t>(row) * args.width + i] = Load(table + from + i);
  }
}

// A row that a block norms. Thread t has the elements t, t + threads, …; the first kHeld of them
// stay in registers.
struct NormedRow {
  float held[kHeld];
  float* x;
  int width;

  // Reads the row. If there is something to add, adds it first and stores the result.
  SIMT_DEVICE NormedRow(float* rows, int columns, const Sums& added)
      : x(rows + static_cast<int64_t>(Block().x) * columns), width(columns) {
    SIMT_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      const int i = ThreadIndex() + k * BlockThreads();
      held[k] = i < width ? x[i] : 0.0f;
    }
    if (added.ranges == 0) return;
    const int64_t begin = static_cast<int64_t>(Block().x) * columns;
    SIMT_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      const int i = ThreadIndex() + k * BlockThreads();
      if (i < width) held[k] += AddRanges(added, begin + i);
      if (i < width) x[i] = held[k];
    }
    SIMT_ROLL
    for (int i = ThreadIndex() + kHeld * BlockThreads(); i < width; i += BlockThreads()) {
      x[i] += AddRanges(added, begin + i);
    }
  }

  // Calls visit(i, value) for the thread's elements.
  template <typename F>
  SIMT_DEVICE void ForEach(const F& visit) const {
    SIMT_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      const int i = ThreadIndex() + k * BlockThreads();
      if (i < width) visit(i, held[k]);
    }
    SIMT_ROLL
    for (int i = ThreadIndex() + kHeld * BlockThreads(); i < width; i += BlockThreads()) {
      visit(i, x[i]);
    }
  }
};

// Stores the row, and its features if there is a tap.
template <typename Out, typename Args, typename F>
SIMT_DEVICE void StoreNormed(const Args& args, const NormedRow& row, const F& normed) {
  Out* y = static_cast<Out*>(args.y) + static_cast<int64_t>(Block().x) * args.width;
  Out* tap = static_cast<Out*>(args.tap);
  if (tap != nullptr) tap += static_cast<int64_t>(Block().x) * args.tap_stride;
  row.ForEach([&](int i, float value) {
    Store(y + i, normed(i, value));
    if (tap != nullptr) Store(tap + i, value);
  });
}

template <typename Out>
SIMT_KERNEL(kNormThreads, 1)
void RmsNormKernel(RmsNormArgs args) {
  BeginKernel();
  const NormedRow row(args.x, args.width, args.added);
  float squares = 0;
  row.ForEach([&](int, float value) { squares += value * value; });
  squares = BlockSum(squares, reinterpret_cast<float*>(DynamicShared()));
  const float scale = ReciprocalSqrt(squares / static_cast<float>(args.width) + args.epsilon);
  StoreNormed<Out>(args, row, [&](int i, float value) { return value * scale * args.weight[i]; });
}

template <typename Out>
SIMT_KERNEL(kNormThreads, 1)
void LayerNormKernel(LayerNormArgs args) {
  BeginKernel();
  const NormedRow row(args.x, args.width, args.added);
  float* partial = reinterpret_cast<float*>(DynamicShared());
  float sum = 0;
  row.ForEach([&](int, float value) { sum += value; });
  const float mean = BlockSum(sum, partial) / static_cast<float>(args.width);
  SyncBlock();  // Every thread has read `partial`.
  float squares = 0;
  row.ForEach([&](int, float value) { squares += (value - mean) * (value - mean); });
  squares = BlockSum(squares, partial);
  const float scale = ReciprocalSqrt(squares / static_cast<float>(args.width) + args.epsilon);
  StoreNormed<Out>(args, row, [&](int i, float value) {
    return (value - mean) * scale * args.weight[i] + args.bias[i];
  });
}

template <typename Out>
SIMT_KERNEL(kThreads, 1)
void SiluMulKernel(SiluMulArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  const int64_t row = Block().y;
  const float gate = args.gate_up[row * 2 * args.width + i];
  const float up = args.gate_up[(row * 2 + 1) * args.width + i];
  Store(static_cast<Out*>(args.y) + row * args.width + i, gate / (1.0f + Exp(-gate)) * up);
}

template <typename Out>
SIMT_KERNEL(kThreads, 1)
void SiluAddKernel(SiluAddArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  const int64_t at = static_cast<int64_t>(Block().y) * args.width + i;
  const float x = args.x[at];
  Out* const y = static_cast<Out*>(args.y) + at;
  Store(y, Load(y) + x / (1.0f + Exp(-x)));
}

template <typename Out>
SIMT_KERNEL(kThreads, 1)
void GeluKernel(GeluArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  constexpr float kRootHalf = 0.70710678f;  // √½
  const int64_t at = static_cast<int64_t>(Block().y) * args.width + i;
  const float x = args.x[at];
  Store(static_cast<Out*>(args.y) + at, 0.5f * x * ComplementaryErf(-x * kRootHalf));
}

SIMT_KERNEL(kThreads, 1)
void ScaleKernel(ScaleArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  float* const x = args.x + static_cast<int64_t>(Block().y) * args.width + i;
  const float scaled = args.factor * *x;
  // tanh(z) = 1 − 2 / (exp(2 z) + 1), which is right at both ends too.
  *x = args.cap > 0 ? args.cap * (1.0f - 2.0f / (Exp(2.0f * scaled / args.cap) + 1.0f)) : scaled;
}

template <typename T>
SIMT_KERNEL(kThreads, 1)
void ConvolveKernel(ConvolveArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i >= args.width) return;
  const int row = Block().y, place = row % args.block_rows, groups = args.width / args.group;
  const int64_t at = static_cast<int64_t>(row) * args.width + i;
  const T* x = static_cast<const T*>(args.x) + at;
  const float* coefficients =
      args.coefficients + static_cast<int64_t>(row) * args.stride + i / args.group;
  float sum = 0;
  for (int t = 0; t < args.taps && t <= place; ++t) {
    const int64_t back = static_cast<int64_t>(t) * args.width;
    sum += (args.base[back + i] + coefficients[t * groups]) * Load(x - back);
  }
  T* y = static_cast<T*>(args.y) + at;
  Store(y, args.accumulate ? Load(y) + sum : sum);
}

// Copies 16 bytes per thread and turn.
SIMT_KERNEL(kThreads, 1)
void GatherRowsKernel(GatherRowsArgs args) {
  BeginKernel();
  const int64_t bytes = static_cast<int64_t>(args.width) * (args.dtype == DType::kF32 ? 4 : 2);
  const int64_t row = Block().x;
  const char* from = static_cast<const char*>(args.x) + args.sources[row] * bytes;
  char* to = static_cast<char*>(args.y) + row * bytes;
  for (int64_t i = int64_t{16} * ThreadIndex(); i < bytes; i += int64_t{16} * BlockThreads()) {
    StoreBytes16(to + i, LoadBytes16(from + i));
  }
}

SIMT_KERNEL(kThreads, 1)
void AddBiasKernel(AddBiasArgs args) {
  BeginKernel();
  const int i = Block().x * BlockThreads() + ThreadIndex();
  if (i < args.width) args.y[static_cast<int64_t>(Block().y) * args.width + i] += args.bias[i];
}

// The launch of one thread for each element of rows [R, width].
LaunchShape PerElement(int rows, int width) {
  return {{(width + kThreads - 1) / kThreads, rows}, kThreads};
}

// Threads per block for rows of `width` elements: one thread for every four, at most `most`.
int ThreadsFor(int width, int most = kThreads) {
  const int warps = (width + 4 * kWarp - 1) / (4 * kWarp);
  return kWarp * (warps < most / kWarp ? warps : most / kWarp);
}

LaunchShape PerNormedRow(int rows, int width) {
  return {{rows}, ThreadsFor(width, kNormThreads), kNormThreads / kWarp * sizeof(float)};
}

}  // namespace

void Embed(const EmbedArgs& args, Stream& stream) {
  const LaunchShape shape = {{args.rows.row_capacity}, ThreadsFor(args.width)};
  if (args.dtype == DType::kF32) {
    Launch(stream, EmbedKernel<float>, shape, args);
  } else {
    Launch(stream, EmbedKernel<uint16_t>, shape, args);
  }
}

void RmsNorm(const RmsNormArgs& args, Stream& stream) {
  const LaunchShape shape = PerNormedRow(args.rows, args.width);
  if (args.dtype == DType::kF32) {
    Launch(stream, RmsNormKernel<float>, shape, args);
  } else {
    Launch(stream, RmsNormKernel<uint16_t>, shape, args);
  }
}

void LayerNorm(const LayerNormArgs& args, Stream& stream) {
  const LaunchShape shape = PerNormedRow(args.rows, args.width);
  if (args.dtype == DType::kF32) {
    Launch(stream, LayerNormKernel<float>, shape, args);
  } else {
    Launch(stream, LayerNormKernel<uint16_t>, shape, args);
  }
}

void Gelu(const GeluArgs& args, Stream& stream) {
  const LaunchShape shape = PerElement(args.rows, args.width);
  if (args.dtype == DType::kF32) {
    Launch(stream, GeluKernel<float>, shape, args);
  } else {
    Launch(stream, GeluKernel<uint16_t>, shape, args);
  }
}

void SiluAdd(const SiluAddArgs& args, Stream& stream) {
  const LaunchShape shape = PerElement(args.rows, args.width);
  if (args.dtype == DType::kF32) {
    Launch(stream, SiluAddKernel<float>, shape, args);
  } else {
    Launch(stream, SiluAddKernel<uint16_t>, shape, args);
  }
}

void GatherRows(const GatherRowsArgs& args, Stream& stream) {
  Launch(stream, GatherRowsKernel, {{args.rows}, ThreadsFor(args.width)}, args);
}

void AddBias(const AddBiasArgs& args, Stream& stream) {
  Launch(stream, AddBiasKernel, PerElement(args.rows, args.width), args);
}

void Scale(const ScaleArgs& args, Stream& stream) {
  Launch(stream, ScaleKernel, PerElement(args.rows, args.width), args);
}

void Convolve(const ConvolveArgs& args, Stream& stream) {
  const LaunchShape shape = PerElement(args.rows, args.width);
  if (args.dtype == DType::kF32) {
    Launch(stream, ConvolveKernel<float>, shape, args);
  } else {
    Launch(stream, ConvolveKernel<uint16_t>, shape, args);
  }
}

void SiluMul(const SiluMulArgs& args, Stream& stream) {
  const LaunchShape shape = PerElement(args.rows, args.width);
  if (args.dtype == DType::kF32) {
    Launch(stream, SiluMulKernel<float>, shape, args);
  } else {
    Launch(stream, SiluMulKernel<uint16_t>, shape, args);
  }
}

}  // namespace bastion::kernels::cuda
