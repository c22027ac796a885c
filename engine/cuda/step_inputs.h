// StepInputs: the inputs of a step (one forward), in one block of device memory that a recorded
// graph reads. A span is the rows of one sequence (AttentionSpan in kernels/ops/ops.h). The host
// fills its own block and sends it to the device in one copy.
#ifndef BASTION_ENGINE_CUDA_STEP_INPUTS_H_
#define BASTION_ENGINE_CUDA_STEP_INPUTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/page_pool.h"
#include "engine/model/row_batch.h"
#include "kernels/cuda/ops.h"

namespace bastion::cuda {

// Upper limits of one step.
struct StepCapacity {
  int rows = 0;    // R
  int spans = 0;   // B
  int pages = 0;   // Pages of the KV cache. Padding rows use page number `pages`.
  int tokens = 0;  // Tokens of one span, cached ones included.

  // Entries in the page tables of all spans, which may share pages.
  [[nodiscard]] size_t table_entries() const {
    return static_cast<size_t>(spans) * std::min(pages, nn::PagesFor(tokens));
  }
};

// The rows of one step, and data for each row.
struct StepContents {
  const nn::RowBatch& batch;
  // [walked rows]: index of each row's parent within its span, −1 for the first row of a span. The
  // trees to walk are the first spans of the batch. Empty if there are none.
  absl::Span<const int32_t> parents = {};
  // Rules for the first rows. Empty if no token is chosen.
  absl::Span<const kernels::ChoiceRule> rules = {};
};

class StepInputs {
 public:
  StepInputs() = default;  // Capacity 0.
  // REQUIRES: capacity.rows is a multiple of 64.
  [[nodiscard]] static absl::StatusOr<StepInputs> Create(const StepCapacity& capacity);

  // Increments step() and enqueues a copy of `contents`, padded to `rows` rows, to the device.
  // REQUIRES: the copy of the previous step is complete; `contents` and `rows` fit the capacity.
  void Send(const StepContents& contents, int rows, kernels::cuda::Stream& stream);

  // The inputs in device memory, as arguments for kernels that work on the first `rows` rows.
  [[nodiscard]] kernels::cuda::StepRows Rows(int rows) const;
  // The same, with only the walked rows and their spans in use.
  [[nodiscard]] kernels::cuda::StepRows WalkedRows(int rows) const;
  [[nodiscard]] const kernels::ChoiceRule* rules() const { return On(device_).rules; }  // [R]
  // The number of the last step sent, and its address in device memory.
  [[nodiscard]] uint64_t step() const { return step_; }
  [[nodiscard]] const uint64_t* device_step() const { return On(device_).step; }

  [[nodiscard]] const StepCapacity& capacity() const { return capacity_; }

 private:
  // Addresses of all inputs in a block of memory.
  struct Sections {
    uint64_t* step;
    int32_t* used;  // [4]: number of rows, of spans, of walked rows, of walked spans
    int32_t *tokens, *positions, *parents;               // [R]
    int64_t* slots;                                      // [R]
    kernels::ChoiceRule* rules;                          // [R]
    int32_t *first_rows, *cached, *first_pages, *masks;  // [B + 1], [B], [B], [B]
    uint64_t* ancestors;                                 // [R, words] bits; see RowBatch::AddTree
    int32_t* pages;
    size_t bytes;  // Size of everything before `pages`, the last section.
  };

  [[nodiscard]] Sections On(const kernels::cuda::Memory& memory) const;
  [[nodiscard]] int words() const { return capacity_.rows / 64; }
  void FillRows(const StepContents& contents, int rows, const Sections& to) const;
  // Returns the number of entries in all page tables.
  [[nodiscard]] size_t FillSpans(const nn::RowBatch& batch, const Sections& to) const;

  StepCapacity capacity_;
  uint64_t step_ = 0;
  kernels::cuda::Memory host_, device_;
};

}  // namespace bastion::cuda

#endif  // BASTION_ENGINE_CUDA_STEP_INPUTS_H_
