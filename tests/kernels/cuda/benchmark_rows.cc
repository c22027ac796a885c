#include "tests/kernels/cuda/benchmark_rows.h"

#include <numeric>

#include "common/base/status.h"

namespace bastion::kernels::cuda {

absl::StatusOr<BenchmarkRows> BenchmarkRows::Make(DeviceBenchmark& bench, int count, int cached) {
  const int words = (count + 63) / 64;
  std::vector<int32_t> tokens(count), positions(count), parents(count, -1);
  std::vector<int64_t> slots(count);
  std::vector<uint64_t> ancestors(size_t(count) * words);
  for (int row = 0; row < count; ++row) {
    const int parent = row == 0 ? -1 : (row - 1) / 2;
    tokens[row] = 97 * row;
    parents[row] = parent;
    positions[row] = parent < 0 ? cached : positions[parent] + 1;
    slots[row] = cached + row;
    for (int i = row; i >= 0; i = parents[i]) {
      ancestors[size_t(row) * words + i / 64] |= uint64_t{1} << (i % 64);
    }
  }
  std::vector<int32_t> pages(Pages(count, cached));
  std::iota(pages.begin(), pages.end(), 0);
  const auto mask = static_cast<int32_t>(count == 1 ? RowMask::kCausal : RowMask::kAncestors);

  BenchmarkRows made;
  const auto keep = [&]<typename T>(const std::vector<T>& values, const T*& at) -> absl::Status {
    ASSIGN_OR_RETURN(Memory memory, bench.Upload(values));
    at = memory.as<T>();
    made.memories_.push_back(std::move(memory));
    return absl::OkStatus();
  };
  StepRows& rows = made.rows_;
  RETURN_IF_ERROR(keep(std::vector<int32_t>{count, 1}, rows.used));
  RETURN_IF_ERROR(keep(tokens, rows.tokens));
  RETURN_IF_ERROR(keep(positions, rows.positions));
  RETURN_IF_ERROR(keep(parents, rows.parents));
  RETURN_IF_ERROR(keep(slots, rows.slots));
  RETURN_IF_ERROR(keep(std::vector<int32_t>{0, count}, rows.first_rows));
  RETURN_IF_ERROR(keep(std::vector<int32_t>{cached}, rows.cached));
  RETURN_IF_ERROR(keep(std::vector<int32_t>{0}, rows.earlier));
  RETURN_IF_ERROR(keep(std::vector<int32_t>{0}, rows.first_pages));
  RETURN_IF_ERROR(keep(std::vector<int32_t>{mask}, rows.masks));
  RETURN_IF_ERROR(keep(pages, rows.pages));
  RETURN_IF_ERROR(keep(ancestors, rows.ancestors));
  rows.words = words;
  rows.row_capacity = count;
  rows.span_capacity = 1;
  return made;
}

}  // namespace bastion::kernels::cuda
