// Times linear() with bf16 weights: single matrices, and all matrices of the demo target's layers.
// Also reports the bytes of weights read per second. Times the row-wise kernels of GPT-NeoX.
#include <benchmark/benchmark.h>

#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

int Threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void BM_Linear(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0)), outputs = static_cast<int>(state.range(1));
  const int depth = static_cast<int>(state.range(2));
  ThreadPool pool(Threads());
  const RandomMatrix matrix(WeightFormat::kBF16, outputs, depth, 1);
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 2);
  std::vector<float> y(size_t(rows) * outputs);
  for (auto _ : state) {
    CpuBackend().linear({x.data(), matrix.packed, y.data(), rows, outputs, false}, pool);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * matrix.packed.bytes()));
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * rows * outputs * depth * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Linear)
    ->ArgsProduct({{1, 2, 4, 8, 16, 32, 64, 128}, {1792}, {320}})
    ->ArgsProduct({{1, 8, 64}, {4096}, {320, 4096}})
    ->UseRealTime();

// Multiplies by the four matrices of each layer of the demo target in turn. There are enough layers
// that every matrix is read from memory.
void BM_LinearStack(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0));
  constexpr int kLayers = 9;
  constexpr int kShapes[][2] = {{640, 320}, {320, 384}, {2560, 320}, {320, 1280}};
  ThreadPool pool(Threads());
  std::vector<RandomMatrix> matrices;
  matrices.reserve(4 * kLayers);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const auto& shape : kShapes)
      matrices.emplace_back(WeightFormat::kBF16, shape[0], shape[1], 1);
  }
  const std::vector<float> x = RandomFloats(size_t(rows) * 1280, 2);
  std::vector<float> y(size_t(rows) * 2560);
  int64_t bytes = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < matrices.size(); ++i) {
      CpuBackend().linear({x.data(), matrices[i].packed, y.data(), rows, kShapes[i % 4][0], false},
                          pool);
      bytes += static_cast<int64_t>(matrices[i].packed.bytes());
    }
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(BM_LinearStack)->DenseRange(1, 9)->Arg(16)->Arg(32)->UseRealTime();

// The row-wise kernels of GPT-NeoX, with the widths of Pythia-410M. state.range(0) rows.
void BM_LayerNorm(benchmark::State& state) {
  ThreadPool pool(Threads());
  const int rows = static_cast<int>(state.range(0)), width = 1024;
  const std::vector<float> x(size_t(rows) * width, 1.5f), weight(width, 1.0f), bias(width, 0.5f);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    CpuBackend().layer_norm({x.data(), weight.data(), bias.data(), y.data(), rows, width, 1e-5f},
                            pool);
  }
}
BENCHMARK(BM_LayerNorm)->Arg(1)->Arg(8)->Arg(64)->UseRealTime();

void BM_Gelu(benchmark::State& state) {
  ThreadPool pool(Threads());
  const int rows = static_cast<int>(state.range(0)), width = 4096;
  const std::vector<float> x(size_t(rows) * width, 1.5f);
  std::vector<float> y(x.size());
  for (auto _ : state) CpuBackend().gelu({x.data(), y.data(), rows, width}, pool);
}
BENCHMARK(BM_Gelu)->Arg(1)->Arg(8)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace bastion::kernels
