// Helpers for tests of GPU kernels: copies between vectors and device memory, and the rows of a
// step.
//
// Every build runs the tests on the emulator. A program that was built for GPUs skips them on a
// machine without a GPU.
#ifndef BASTION_TESTS_KERNELS_CUDA_DEVICE_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_CUDA_DEVICE_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels::cuda {

// A vector in device memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    absl::StatusOr<Memory> memory = Memory::OnDevice(values.size() * sizeof(T), "a test's operand");
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    Write(values);
  }
  explicit OnDevice(size_t count, T value = T()) : OnDevice(std::vector<T>(count, value)) {}

  void Write(const std::vector<T>& values) {
    ASSERT_EQ(values.size(), count_);
    Transfer(memory_.as<void>(), values.data());
  }
  [[nodiscard]] std::vector<T> Read() const {
    std::vector<T> values(count_);
    Transfer(values.data(), memory_.as<void>());
    return values;
  }
  [[nodiscard]] T* data() const { return memory_.as<T>(); }

 private:
  void Transfer(void* to, const void* from) const {
    auto stream = Stream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    (*stream)->Copy(to, from, count_ * sizeof(T));
    const absl::Status done = (*stream)->Synchronize();
    ASSERT_TRUE(done.ok()) << done;
  }

  size_t count_;
  Memory memory_;
};

// Floats in device memory, converted to the element type of a kernel.
class Typed {
 public:
  Typed(DType dtype, const std::vector<float>& values)
      : dtype_(dtype),
        floats_(dtype == DType::kF32 ? values : std::vector<float>(1)),
        halves_(dtype == DType::kF32 ? std::vector<uint16_t>(1) : ToBf16(values)) {}

  [[nodiscard]] void* data() const {
    return dtype_ == DType::kF32 ? static_cast<void*>(floats_.data()) : halves_.data();
  }
  [[nodiscard]] std::vector<float> Read() const {
    if (dtype_ == DType::kF32) return floats_.Read();
    std::vector<float> values;
    for (const uint16_t bits : halves_.Read()) values.push_back(Bf16ToFloat(bits));
    return values;
  }

 private:
  DType dtype_;
  OnDevice<float> floats_;
  OnDevice<uint16_t> halves_;
};

// `values` after a conversion to `dtype` and back.
inline std::vector<float> Rounded(DType dtype, std::vector<float> values) {
  if (dtype == DType::kF32) return values;
  for (float& value : values) value = Bf16ToFloat(FloatToBf16(value));
  return values;
}

// One span of a step.
struct TestSpan {
  int cached = 0;
  RowMask mask = RowMask::kCausal;
  std::vector<int> parents;     // All rows, a parent before its children; −1: the root
  std::vector<int32_t> pages;   // Pages of the sequence, for cached + rows tokens.
  std::vector<int32_t> tokens;  // [rows], or empty: all zeros
  int earlier = 0;              // The first rows are in the cache already, not in the step.

  [[nodiscard]] int new_rows() const { return static_cast<int>(parents.size()) - earlier; }
};

// StepRows in device memory, with capacity for more rows and spans than are used.
class TestRows {
 public:
  TestRows(const std::vector<TestSpan>& spans, int row_capacity, int span_capacity)
      : words_(WordsFor(spans, row_capacity)) {
    std::vector<int32_t> tokens(row_capacity), positions(row_capacity), parents(row_capacity, -1);
    std::vector<int64_t> slots(row_capacity);
    std::vector<uint64_t> ancestors(size_t(row_capacity) * words_);
    std::vector<int32_t> first_rows(span_capacity + 1), cached(span_capacity);
    std::vector<int32_t> earlier(span_capacity);
    std::vector<int32_t> first_pages(span_capacity), masks(span_capacity), pages;
    int row = 0;
    for (size_t b = 0; b < spans.size(); ++b) {
      const TestSpan& span = spans[b];
      first_rows[b] = row;
      cached[b] = span.cached;
      earlier[b] = span.earlier;
      masks[b] = static_cast<int32_t>(span.mask);
      first_pages[b] = static_cast<int32_t>(pages.size());
      pages.insert(pages.end(), span.pages.begin(), span.pages.end());
      std::vector<int> depths;  // Those of all rows of the tree.
      for (size_t i = 0; i < span.parents.size(); ++i) {
        const int parent = span.parents[i];
        const bool tree = span.mask == RowMask::kAncestors;
        depths.push_back(!tree ? static_cast<int>(i) : parent < 0 ? 0 : depths[parent] + 1);
        if (static_cast<int>(i) < span.earlier) continue;
        tokens[row] = span.tokens.empty() ? 0 : span.tokens[i];
        parents[row] = parent;
        positions[row] = span.cached + depths[i];
        const int token = span.cached + static_cast<int>(i);
        slots[row] = int64_t{span.pages[token / kPageTokens]} * kPageTokens + token % kPageTokens;
        for (int j = static_cast<int>(i); j >= 0; j = span.parents[j]) {
          ancestors[size_t(row) * words_ + j / 64] |= uint64_t{1} << (j % 64);
        }
        ++row;
      }
    }
    for (size_t b = spans.size(); b <= size_t(span_capacity); ++b) first_rows[b] = row;
    host_positions_ = positions;
    host_slots_ = slots;
    Keep({row, static_cast<int32_t>(spans.size())}, rows_.used);
    Keep(tokens, rows_.tokens);
    Keep(positions, rows_.positions);
    Keep(parents, rows_.parents);
    Keep(first_rows, rows_.first_rows);
    Keep(cached, rows_.cached);
    Keep(earlier, rows_.earlier);
    Keep(first_pages, rows_.first_pages);
    Keep(masks, rows_.masks);
    Keep(pages.empty() ? std::vector<int32_t>(1) : pages, rows_.pages);
    slots_ = std::make_unique<OnDevice<int64_t>>(slots);
    ancestors_ = std::make_unique<OnDevice<uint64_t>>(ancestors);
    rows_.slots = slots_->data();
    rows_.ancestors = ancestors_->data();
    rows_.words = words_;
    rows_.row_capacity = row_capacity;
    rows_.span_capacity = span_capacity;
  }

  [[nodiscard]] const StepRows& rows() const { return rows_; }
  [[nodiscard]] const std::vector<int32_t>& positions() const { return host_positions_; }  // [R]
  [[nodiscard]] const std::vector<int64_t>& slots() const { return host_slots_; }          // [R]

 private:
  // Words of ancestor bits for a row of the largest tree.
  [[nodiscard]] static int WordsFor(const std::vector<TestSpan>& spans, int row_capacity) {
    size_t rows = row_capacity;
    for (const TestSpan& span : spans) rows = std::max(rows, span.parents.size());
    return static_cast<int>(rows + 63) / 64;
  }
  void Keep(const std::vector<int32_t>& values, const int32_t*& at) {
    kept_.push_back(std::make_unique<OnDevice<int32_t>>(values));
    at = kept_.back()->data();
  }

  int words_;
  std::vector<std::unique_ptr<OnDevice<int32_t>>> kept_;
  std::unique_ptr<OnDevice<int64_t>> slots_;
  std::unique_ptr<OnDevice<uint64_t>> ancestors_;
  std::vector<int32_t> host_positions_;
  std::vector<int64_t> host_slots_;
  StepRows rows_;
};

// The parents of a chain: −1, 0, 1, ….
inline std::vector<int> ChainParents(int rows) {
  std::vector<int> parents(rows);
  std::iota(parents.begin(), parents.end(), -1);
  return parents;
}

// Opens a device and a stream. Skips the test if there is no device.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<DeviceInfo> device = OpenDevice(0);
    if (!device.ok()) GTEST_SKIP() << "no GPU: " << device.status().message();
    device_ = *device;
    auto stream = Stream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }
  void Finish() {
    const absl::Status done = stream_->Synchronize();
    ASSERT_TRUE(done.ok()) << done;
  }

  DeviceInfo device_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_DEVICE_TEST_SUPPORT_H_
