// What changes from step to step, in one block of device memory that a recorded graph reads: filled
// on the host, copied over in one go.
#ifndef BASTION_COMMON_CUDA_STEP_INPUTS_H_
#define BASTION_COMMON_CUDA_STEP_INPUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/nn/row_batch.h"
#include "kernels/cuda/ops.h"

namespace bastion::cuda {

// The most that a step takes.
struct StepCapacity {
  int rows = 0;   // R
  int spans = 0;  // B
  int pages = 0;  // Of all spans together; a slot of page `pages` itself is for padding rows.
};

// The rows of one step, and what else is known of each.
struct StepContents {
  const nn::RowBatch& batch;
  // Of rows as rows of their span, −1 for its first; empty where nothing is walked.
  absl::Span<const int32_t> parents = {};            // [rows]
  absl::Span<const kernels::ChoiceRule> rules = {};  // [rows]; empty where nothing is chosen.
};

class StepInputs {
 public:
  StepInputs() = default;  // Of no capacity.
  // REQUIRES: capacity.rows is a multiple of 64.
  [[nodiscard]] static absl::StatusOr<StepInputs> Create(const StepCapacity& capacity);

  // Puts `contents` on the way to the device, padded to `rows` rows, and numbers the step. The last
  // step's must have arrived. REQUIRES: within the capacity.
  void Send(const StepContents& contents, int rows, kernels::cuda::Stream& stream);

  // For work on the first `rows` rows.
  [[nodiscard]] kernels::cuda::StepRows Rows(int rows) const;
  [[nodiscard]] const kernels::ChoiceRule* rules() const { return On(device_).rules; }  // [R]
  // Of the step that was sent last: here, and where the device has it.
  [[nodiscard]] uint64_t step() const { return step_; }
  [[nodiscard]] const uint64_t* device_step() const { return On(device_).step; }

  [[nodiscard]] const StepCapacity& capacity() const { return capacity_; }

 private:
  // Where everything lies in a block of memory.
  struct Sections {
    uint64_t* step;
    int32_t* used;
    int32_t *tokens, *positions, *parents;               // [R]
    int64_t* slots;                                      // [R]
    kernels::ChoiceRule* rules;                          // [R]
    int32_t *first_rows, *cached, *first_pages, *masks;  // [B + 1], [B], [B], [B]
    uint64_t* ancestors;                                 // [R, words]
    int32_t* pages;
    size_t bytes;  // Before the pages, which come last.
  };

  [[nodiscard]] Sections On(const kernels::cuda::Memory& memory) const;
  [[nodiscard]] int words() const { return capacity_.rows / 64; }
  void FillRows(const StepContents& contents, int rows, const Sections& to) const;
  // How many pages there are.
  [[nodiscard]] int FillSpans(const nn::RowBatch& batch, const Sections& to) const;

  StepCapacity capacity_;
  uint64_t step_ = 0;
  kernels::cuda::Memory host_, device_;
};

}  // namespace bastion::cuda

#endif  // BASTION_COMMON_CUDA_STEP_INPUTS_H_
