// linear() with int8 weights (W8A8). It rounds the rows of x to eight bits at each call, sums the
// products as integers (exact in any order), and multiplies each sum by the scales of its row and
// of its weight column at the end.
//
// The int8 instructions need one unsigned operand, so the rows of x are stored with 128 added. The
// sums of the weight columns are used to remove this offset at the end. On a CPU without these
// instructions, plain C++ loops compute the same results.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"

#if defined(__x86_64__)
#if !defined(__clang__)
// GCC 12 gives false warnings for the "undefined" vectors of its own intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#endif

namespace bastion::kernels::cpu {
namespace {

inline constexpr int kMaxRows = 12;  // Maximum rows of a tile. 24 of the 32 registers hold sums.
inline constexpr int kShift = 128;   // The offset that makes a rounded row unsigned.

// The rows of x as bytes [R, depth], with a scale per row [R].
struct RoundedRows {
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
  int depth = 0;

  const uint8_t* row(int r) const { return bytes.data() + size_t(r) * depth; }
};

// Multiplies M rows of `x` by one panel: dots [M, 32] = unsigned rows · signed weights.
using TileFunction = void (*)(const RoundedRows& x, int row, const int8_t* panel, int32_t* dots);

// One row of a tile and everything that is needed to store it to y.
struct TileRow {
  const int32_t* dots;  // [32]
  const int32_t* sums;  // [32], the sums of the weight columns
  const float* scales;  // [32], the scales of the weight columns
  float scale;          // The scale of the row of x
  float* y;
  int columns;  // <= 32
  bool accumulate;
};

struct Instructions {
  TileFunction tiles[kMaxRows];  // For 1 … kMaxRows rows.
  // Returns max |x|, or NaN if an x is NaN.
  float (*largest)(const float* x, int count);
  // bytes = round(x · inverse) + kShift, for `count` floats.
  void (*round)(const float* x, int count, float inverse, uint8_t* bytes);
  void (*store)(const TileRow& row);
};

// ---- plain ----

template <int M>
void PlainTile(const RoundedRows& x, int row, const int8_t* panel, int32_t* dots) {
  std::fill_n(dots, M * kPanel, 0);
  for (int k = 0; k < x.depth; k += 4, panel += 4 * kPanel) {
    for (int m = 0; m < M; ++m) {
      const uint8_t* four = x.row(row + m) + k;
      for (int c = 0; c < kPanel; ++c) {
        const int8_t* w = panel + 4 * c;
        dots[m * kPanel + c] += four[0] * w[0] + four[1] * w[1] + four[2] * w[2] + four[3] * w[3];
      }
    }
  }
}

float PlainLargest(const float* x, int count) {
  float largest = 0;
  // The comparison is false for a NaN, so a NaN becomes the result.
  for (int k = 0; k < count; ++k) {
    const float magnitude = std::abs(x[k]);
    largest = magnitude <= largest ? largest : magnitude;
    if (std::isnan(largest)) break;
  }
  return largest;
}

void PlainRound(const float* x, int count, float inverse, uint8_t* bytes) {
  for (int k = 0; k < count; ++k) {
    bytes[k] = static_cast<uint8_t>(static_cast<int>(std::nearbyint(x[k] * inverse)) + kShift);
  }
}

void PlainStore(const TileRow& row) {
  for (int c = 0; c < row.columns; ++c) {
    const auto dot = static_cast<float>(row.dots[c] - kShift * row.sums[c]);
    const float product = dot * (row.scale * row.scales[c]);
    row.y[c] = row.accumulate ? row.y[c] + product : product;
  }
}

template <int... M>
constexpr Instructions PlainInstructions(std::integer_sequence<int, M...>) {
  return {{PlainTile<M + 1>...}, PlainLargest, PlainRound, PlainStore};
}

// ---- AVX-512 VNNI ----

#if defined(__x86_64__)
// Compiles a function for these instructions, regardless of the target of this file.
#define BASTION_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

template <int M>
BASTION_VNNI void VnniTile(const RoundedRows& x, int row, const int8_t* panel, int32_t* dots) {
  __m512i sum[M][2];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
  const uint8_t* rows = x.row(row);
  for (int k = 0; k < x.depth; k += 4, panel += 4 * kPanel) {
    const __m512i left = _mm512_load_si512(panel);
    const __m512i right = _mm512_load_si512(panel + 64);
    _mm_prefetch(reinterpret_cast<const char*>(panel) + kPrefetchBytes, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(panel) + kPrefetchBytes + 64, _MM_HINT_T0);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      int32_t four;
      std::memcpy(&four, rows + size_t(m) * x.depth + k, 4);
      const __m512i all = _mm512_set1_epi32(four);
      sum[m][0] = _mm512_dpbusd_epi32(sum[m][0], all, left);
      sum[m][1] = _mm512_dpbusd_epi32(sum[m][1], all, right);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    _mm512_storeu_si512(dots + m * kPanel, sum[m][0]);
    _mm512_storeu_si512(dots + m * kPanel + 16, sum[m][1]);
  }
}

BASTION_VNNI float VnniLargest(const float* x, int count) {
  __m512 largest = _mm512_setzero_ps();
  __mmask16 unordered = 0;
  for (int k = 0; k < count; k += 16) {
    const auto mask = static_cast<__mmask16>(count - k >= 16 ? 0xFFFF : (1 << (count - k)) - 1);
    const __m512 values = _mm512_maskz_loadu_ps(mask, x + k);
    unordered |= _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    largest = _mm512_max_ps(largest, _mm512_abs_ps(values));
  }
  return unordered != 0 ? std::numeric_limits<float>::quiet_NaN() : _mm512_reduce_max_ps(largest);
}

BASTION_VNNI void VnniRound(const float* x, int count, float inverse, uint8_t* bytes) {
  const __m512i shift = _mm512_set1_epi32(kShift);
  int k = 0;
  for (; k + 16 <= count; k += 16) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + k), _mm512_set1_ps(inverse));
    const __m512i rounded = _mm512_add_epi32(_mm512_cvtps_epi32(scaled), shift);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + k), _mm512_cvtepi32_epi8(rounded));
  }
  PlainRound(x + k, count - k, inverse, bytes + k);
}

BASTION_VNNI void VnniStore(const TileRow& row) {
  const __m512 scale = _mm512_set1_ps(row.scale);
  for (int c = 0; c < row.columns; c += 16) {
    const int left = row.columns - c;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1 << left) - 1);
    const __m512i shift = _mm512_slli_epi32(_mm512_loadu_si512(row.sums + c), 7);  // kShift = 2⁷.
    const __m512i dots = _mm512_sub_epi32(_mm512_loadu_si512(row.dots + c), shift);
    const __m512 scales = _mm512_mul_ps(scale, _mm512_loadu_ps(row.scales + c));
    __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(dots), scales);
    if (row.accumulate) product = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, row.y + c), product);
    _mm512_mask_storeu_ps(row.y + c, mask, product);
  }
}

template <int... M>
constexpr Instructions VnniInstructions(std::integer_sequence<int, M...>) {
  return {{VnniTile<M + 1>...}, VnniLargest, VnniRound, VnniStore};
}
#endif

const Instructions& BestInstructions() {
  using Rows = std::make_integer_sequence<int, kMaxRows>;
  static constexpr Instructions plain = PlainInstructions(Rows());
#if defined(__x86_64__)
  static constexpr Instructions vnni = VnniInstructions(Rows());
  if (HasVnni()) return vnni;
#endif
  return plain;
}

void RoundRows(const LinearArgs& args, const Instructions& instructions, RoundedRows& rows) {
  const int count = args.weight.columns;
  rows.depth = args.weight.depth();
  rows.bytes.assign(size_t(args.rows) * rows.depth, kShift);
  rows.scales.resize(args.rows);
  for (int r = 0; r < args.rows; ++r) {
    const float* x = args.x + size_t(r) * count;
    const float largest = instructions.largest(x, count);
    rows.scales[r] = largest / 127;
    if (largest > 0 && std::isfinite(largest)) {
      instructions.round(x, count, 127 / largest, rows.bytes.data() + size_t(r) * rows.depth);
    } else if (largest != 0) {
      rows.scales[r] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace

bool HasVnni() {
#if defined(__x86_64__)
  // VectorFloats() is smaller if a test restricts the vector width.
  return VectorFloats() == 16 && __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

void LinearInt8(const LinearArgs& args, ThreadPool& pool) {
  const Instructions& instructions = BestInstructions();
  static thread_local RoundedRows x;
  RoundRows(args, instructions, x);
  const RoundedRows& rounded = x;  // All threads use the caller's rows.
  const int blocks = (args.rows + kMaxRows - 1) / kMaxRows;
  pool.ParallelFor(args.weight.panels(), kGrainPanels, [&](int64_t begin, int64_t end) {
    alignas(64) int32_t dots[kMaxRows * kPanel];
    for (int panel = static_cast<int>(begin); panel < end; ++panel) {
      const int8_t* weights =
          static_cast<const int8_t*>(args.weight.data) + panel * args.weight.panel_bytes();
      const int columns = std::min(kPanel, args.weight.rows - panel * kPanel);
      for (int b = 0; b < blocks; ++b) {
        const int row = args.rows * b / blocks;
        const int rows = args.rows * (b + 1) / blocks - row;
        instructions.tiles[rows - 1](rounded, row, weights, dots);
        for (int m = 0; m < rows; ++m) {
          instructions.store({dots + m * kPanel, args.weight.sums(panel), args.weight.scales(panel),
                              rounded.scales[row + m],
                              args.y + size_t(row + m) * args.y_stride + panel * kPanel, columns,
                              args.accumulate});
        }
      }
    }
    AddBias(args, begin, end);
  });
}

}  // namespace bastion::kernels::cpu
