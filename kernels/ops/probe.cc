#include "kernels/ops/probe.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <vector>

#include "absl/base/attributes.h"

namespace bastion::kernels {
namespace {

constexpr int kPasses = 6;
// The size of a huge page. Huge pages make the first touch of the buffer faster.
constexpr size_t kAlignment = size_t{2} << 20;

class Buffer {
 public:
  explicit Buffer(size_t bytes) : data_(::operator new(bytes, std::align_val_t(kAlignment))) {
    madvise(data_, bytes, MADV_HUGEPAGE);  // A hint; errors do not matter.
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t(kAlignment)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
};

// Returns twice the size of the last-level cache, within limits. A virtual machine may report the
// cache of a whole server and have less memory than that.
size_t BytesBeyondCaches() {
  constexpr int64_t kMinBytes = int64_t{64} << 20, kMaxBytes = int64_t{256} << 20;
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<size_t>(std::clamp(2 * cache, kMinBytes, kMaxBytes));
}

template <typename Body>
double BestSeconds(const Body& body) {
  double best = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

// A sanitizer would slow down the functions that touch the buffer tenfold.
#define BASTION_NOT_SANITIZED ABSL_ATTRIBUTE_NO_SANITIZE_THREAD ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS

BASTION_NOT_SANITIZED void Fill(uint64_t* words, int64_t count) {
  for (int64_t i = 0; i < count; ++i) words[i] = 0x9E3779B97F4A7C15u;
}

// Returns the exclusive or of `count` words, an operation that costs very little per byte.
BASTION_NOT_SANITIZED uint64_t Fold(const uint64_t* words, int64_t count) {
  constexpr int kAccumulators = 32;
  uint64_t folded[kAccumulators] = {};
  for (int64_t i = 0; i + kAccumulators <= count; i += kAccumulators) {
    __builtin_prefetch(words + i + 512);
    __builtin_prefetch(words + i + 520);
    __builtin_prefetch(words + i + 528);
    __builtin_prefetch(words + i + 536);
    for (int j = 0; j < kAccumulators; ++j) folded[j] ^= words[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t word : folded) all ^= word;
  return all;
}

}  // namespace

double ReadBandwidth(ThreadPool& pool) {
  constexpr int64_t kGrainWords = (1 << 20) / sizeof(uint64_t);
  const size_t bytes = BytesBeyondCaches();
  const Buffer buffer(bytes);
  auto* words = buffer.as<uint64_t>();
  const auto count = static_cast<int64_t>(bytes / sizeof(uint64_t));
  pool.ParallelFor(count, kGrainWords,
                   [&](int64_t begin, int64_t end) { Fill(words + begin, end - begin); });
  std::atomic<uint64_t> sink{0};
  const double seconds = BestSeconds([&] {
    pool.ParallelFor(count, kGrainWords, [&](int64_t begin, int64_t end) {
      sink.fetch_xor(Fold(words + begin, end - begin), std::memory_order_relaxed);
    });
  });
  return static_cast<double>(bytes) / seconds;
}

double LinearRate(const Backend& backend, WeightFormat format, ThreadPool& pool) {
  constexpr int kRows = 96, kOutputs = 1024, kDepth = 512, kRepeats = 4;
  PackedMatrix matrix = {format, kOutputs, kDepth, nullptr};
  const Buffer weights(matrix.bytes());
  std::fill_n(weights.as<char>(), matrix.bytes(), 0);
  matrix.data = weights.as<void>();
  const std::vector<float> x(size_t{kRows} * kDepth, 1.0f);
  std::vector<float> y(size_t{kRows} * kOutputs);
  const double seconds = BestSeconds([&] {
    for (int i = 0; i < kRepeats; ++i) {
      backend.linear({x.data(), matrix, y.data(), kRows, kOutputs, false}, pool);
    }
  });
  return 2.0 * kRepeats * kRows * kOutputs * kDepth / seconds;
}

}  // namespace bastion::kernels
