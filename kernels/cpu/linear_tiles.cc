// linear() with bf16 weights and matrix instructions (AMX). It rounds the rows of x to bf16 at each
// call and multiplies 16 rows at a time. The sums of a row do not depend on the other rows in its
// tile. A CPU with AMX uses this path for bf16 with any number of rows, so that results do not
// depend on that number.
//
// The interface to the tile registers has two implementations. CpuTiles uses the CPU's
// instructions. PlainTiles computes the same sums in the same order in plain C++, for tests and for
// the AMX self-test at startup. Both give the same bits, with two exceptions: the CPU treats
// denormal inputs and outputs as zero, and the bits of a NaN may differ.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/ops/pack.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bastion::kernels::cpu {
namespace {

// Rows per tile. An input tile has one row per row of x; a weight tile has one row per pair of k
// indices.
inline constexpr int kTileRows = 16;
inline constexpr int kTileBytes = 64;  // Bytes of a tile's row: 16 floats or 32 bf16.
// Bytes of a weight panel for two successive k indices.
inline constexpr int kPairBytes = kPanel * 2 * sizeof(uint16_t);

// The tile registers: four for sums, two for x and two for weights.
inline constexpr int kSum = 0, kInput = 4, kWeight = 6, kTiles = 8;

// One row of an input tile: successive bf16 values of a row of x.
struct alignas(kTileBytes) InputLine {
  uint16_t k[kDepthStep];
};

// ---- tiles ----

class PlainTiles {
 public:
  static void Round(const float* x, int count, uint16_t* rounded) {
    for (int k = 0; k < count; ++k) rounded[k] = FloatToBf16(x[k]);
  }
  void Configure() {}
  void Release() {}
  template <int tile>
  void Zero() {
    for (Line& line : tiles_[tile]) std::fill_n(line.sums, kTileRows, 0.0f);
  }
  template <int tile>
  void Load(const void* data, size_t stride) {
    for (int row = 0; row < kTileRows; ++row) {
      std::memcpy(&tiles_[tile][row], static_cast<const char*>(data) + row * stride, kTileBytes);
    }
  }
  template <int tile>
  void Store(float* data, size_t stride) const {
    for (int row = 0; row < kTileRows; ++row) {
      std::memcpy(reinterpret_cast<char*>(data) + row * stride, &tiles_[tile][row], kTileBytes);
    }
  }
  // sum += input · weight. Like the CPU, it sums even and odd k separately and then adds the two
  // sums.
  template <int sum, int input, int weight>
  void MultiplyAdd() {
    for (int m = 0; m < kTileRows; ++m) {
      for (int n = 0; n < kTileRows; ++n) {
        float even = 0, odd = 0;
        for (int pair = 0; pair < kTileRows; ++pair) {
          const uint16_t* x = tiles_[input][m].bf16 + size_t{2} * pair;
          const uint16_t* w = tiles_[weight][pair].bf16 + size_t{2} * n;
          even = std::fma(Bf16ToFloat(x[0]), Bf16ToFloat(w[0]), even);
          odd = std::fma(Bf16ToFloat(x[1]), Bf16ToFloat(w[1]), odd);
        }
        tiles_[sum][m].sums[n] += even + odd;
      }
    }
  }

 private:
  union Line {
    float sums[kTileRows];
    uint16_t bf16[kDepthStep];
  };
  Line tiles_[kTiles][kTileRows];
};

#if defined(__x86_64__)
// Uses inline assembly. With intrinsics, these functions would need a target attribute, and the
// compiler could not inline them into the templates that are shared with PlainTiles.
class CpuTiles {
 public:
  // Every CPU with AMX has AVX-512.
  __attribute__((target("avx512f,avx512bw,avx512vl"))) static void Round(const float* x, int count,
                                                                         uint16_t* rounded) {
    for (int k = 0; k < count; ++k) rounded[k] = FloatToBf16(x[k]);
  }
  void Configure() {
    static constexpr Config config = [] {
      Config all;
      for (int tile = 0; tile < kTiles; ++tile) {
        all.row_bytes[tile] = kTileBytes;
        all.rows[tile] = kTileRows;
      }
      return all;
    }();
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  void Release() { asm volatile("tilerelease"); }
  template <int tile>
  void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  void Load(const void* data, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(data), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  void Store(float* data, size_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(data), "r"(stride), "i"(tile) : "memory");
  }
  template <int sum, int input, int weight>
  void MultiplyAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(input), "i"(weight));
  }

 private:
  struct alignas(64) Config {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };
};
#endif

// ---- linear ----

// The rows of x in bf16, in groups of 16: [ceil(R / 16)] x [K / 32] x [16] x [32], padded with
// zeros.
template <typename Tiles>
class RoundedRows {
 public:
  void Assign(const LinearArgs& args) {
    const int columns = args.weight.columns;
    steps_ = args.weight.depth() / kDepthStep;
    groups_ = (args.rows + kTileRows - 1) / kTileRows;
    lines_.resize(size_t(groups_) * steps_ * kTileRows);
    for (int row = 0; row < groups_ * kTileRows; ++row) {
      InputLine* line = lines_.data() + size_t(row / kTileRows) * steps_ * kTileRows;
      line += row % kTileRows;
      const float* x = args.x + size_t(row) * columns;
      for (int k = 0; k < steps_ * kDepthStep; k += kDepthStep, line += kTileRows) {
        const int count = row < args.rows ? std::clamp(columns - k, 0, kDepthStep) : 0;
        Tiles::Round(x + k, count, line->k);
        std::fill(line->k + count, line->k + kDepthStep, uint16_t{0});
      }
    }
  }

  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] const InputLine* group(int g) const {
    return lines_.data() + size_t(g) * steps_ * kTileRows;
  }

 private:
  std::vector<InputLine> lines_;
  int groups_ = 0, steps_ = 0;
};

// Stores the sums [16, 32] of one group and panel to y, or adds them.
void StoreRows(const LinearArgs& args, const float* sums, int group, int panel) {
  const int rows = std::min(kTileRows, args.rows - group * kTileRows);
  const int columns = std::min(kPanel, args.weight.rows - panel * kPanel);
  for (int m = 0; m < rows; ++m, sums += kPanel) {
    float* y = args.y + size_t(group * kTileRows + m) * args.y_stride + panel * kPanel;
    if (args.accumulate) {
      for (int c = 0; c < columns; ++c) y[c] += sums[c];
    } else {
      std::copy_n(sums, columns, y);
    }
  }
}

// Multiplies one panel by `Groups` groups of rows, starting at `group`. The weights are read once
// for all of these rows.
template <int Groups, typename Tiles>
void PanelTile(Tiles& tiles, const LinearArgs& args, const RoundedRows<Tiles>& rows, int group,
               int panel) {
  const char* weights =
      static_cast<const char*>(args.weight.data) + panel * args.weight.panel_bytes();
  const InputLine* x[2] = {rows.group(group), rows.group(group + Groups - 1)};
  tiles.template Zero<kSum>();
  tiles.template Zero<kSum + 1>();
  tiles.template Zero<kSum + 2>();
  tiles.template Zero<kSum + 3>();
  for (int step = 0; step < rows.steps(); ++step, weights += kTileRows * kPairBytes) {
    for (int byte = 0; byte < kTileRows * kPairBytes; byte += kTileBytes) {
      __builtin_prefetch(weights + kPrefetchBytes + byte);
    }
    tiles.template Load<kWeight>(weights, kPairBytes);
    tiles.template Load<kWeight + 1>(weights + kTileBytes, kPairBytes);
    tiles.template Load<kInput>(x[0] + size_t(step) * kTileRows, kTileBytes);
    tiles.template MultiplyAdd<kSum, kInput, kWeight>();
    tiles.template MultiplyAdd<kSum + 1, kInput, kWeight + 1>();
    if constexpr (Groups == 2) {
      tiles.template Load<kInput + 1>(x[1] + size_t(step) * kTileRows, kTileBytes);
      tiles.template MultiplyAdd<kSum + 2, kInput + 1, kWeight>();
      tiles.template MultiplyAdd<kSum + 3, kInput + 1, kWeight + 1>();
    }
  }
  constexpr int kStride = kPanel * sizeof(float);
  alignas(kTileBytes) float sums[kTileRows * kPanel];
  tiles.template Store<kSum>(sums, kStride);
  tiles.template Store<kSum + 1>(sums + kTileRows, kStride);
  StoreRows(args, sums, group, panel);
  if constexpr (Groups == 2) {
    tiles.template Store<kSum + 2>(sums, kStride);
    tiles.template Store<kSum + 3>(sums + kTileRows, kStride);
    StoreRows(args, sums, group + 1, panel);
  }
}

template <typename Tiles>
void LinearOn(const LinearArgs& args, ThreadPool& pool) {
  static thread_local RoundedRows<Tiles> caller_rows;
  caller_rows.Assign(args);
  const RoundedRows<Tiles>& rows = caller_rows;  // All threads use the caller's rows.
  pool.ParallelFor(args.weight.panels(), kGrainPanels, [&](int64_t begin, int64_t end) {
    Tiles tiles;
    tiles.Configure();
    for (int panel = static_cast<int>(begin); panel < end; ++panel) {
      int group = 0;
      for (; group + 2 <= rows.groups(); group += 2) {
        PanelTile<2>(tiles, args, rows, group, panel);
      }
      if (group < rows.groups()) PanelTile<1>(tiles, args, rows, group, panel);
    }
    tiles.Release();
    AddBias(args, begin, end);
  });
}

#if defined(__x86_64__)
bool CpuReportsAmx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;  // Bits of CPUID leaf 7, register EDX.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTile) != 0;
}

// Asks Linux for permission to use AMX; returns whether it was granted. The tile registers add 8
// KiB to the state of a thread, so Linux enables them only on request.
bool RequestAmx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2).
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Compares a small product on CpuTiles with the same product on PlainTiles.
bool AmxSelfTestPasses() {
  constexpr int kRows = 19, kOutputs = 37, kDepth = 70;
  PackedMatrix shape = {WeightFormat::kBF16, kOutputs, kDepth, nullptr};
  std::vector<uint16_t> matrix(size_t{kOutputs} * kDepth);
  std::vector<float> x(size_t{kRows} * kDepth);
  for (size_t i = 0; i < matrix.size(); ++i) {
    matrix[i] = FloatToBf16(static_cast<float>(i * 37 % 101) / 101.0f - 0.5f);
  }
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 53 % 97) / 97.0f - 0.5f;
  std::vector<InputLine> packed(shape.bytes() / sizeof(InputLine));
  shape.data = packed.data();
  ThreadPool pool(1);
  PackMatrix({{DType::kBF16, matrix.data(), kOutputs}}, shape, pool);
  std::vector<float> y(size_t{kRows} * kOutputs), expected(y.size());
  LinearOn<CpuTiles>({x.data(), shape, y.data(), kRows, kOutputs, false}, pool);
  LinearOn<PlainTiles>({x.data(), shape, expected.data(), kRows, kOutputs, false}, pool);
  return std::equal(y.begin(), y.end(), expected.begin(),
                    [](float a, float b) { return std::abs(a - b) <= 1e-4f; });
}
#endif

bool DetectAmx() {
#if defined(__x86_64__)
  if (!CpuReportsAmx() || !RequestAmx()) return false;
  if (AmxSelfTestPasses()) return true;
  LOG(WARNING) << "AMX self-test failed: matrix instructions give wrong products; not using AMX";
#endif
  return false;
}

}  // namespace

bool HasTiles() {
  static const bool has = DetectAmx();
  // VectorFloats() is smaller if a test restricts the vector width.
  return has && VectorFloats() == kWidest;
}

void LinearTiles(const LinearArgs& args, ThreadPool& pool) {
#if defined(__x86_64__)
  if (HasTiles()) return LinearOn<CpuTiles>(args, pool);
#endif
  LinearOn<PlainTiles>(args, pool);
}

}  // namespace bastion::kernels::cpu
