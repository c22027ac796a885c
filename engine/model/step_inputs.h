// StepInputs: the inputs of a step (one forward), in one block of memory that the device reads
// (kernels/ops/rows.h). The host fills its own block and sends it to the device in one copy. On the
// host, the two are the same.
#ifndef BASTION_ENGINE_MODEL_STEP_INPUTS_H_
#define BASTION_ENGINE_MODEL_STEP_INPUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/device.h"
#include "engine/model/row_batch.h"
#include "kernels/ops/rows.h"

namespace bastion::nn {

// The rows of one step, and data for each row.
struct StepContents {
  const RowBatch& batch;
  // [walked rows]: index of each row's parent within its span, −1 for the first row of a span. The
  // trees to walk are the first spans of the batch. Empty if there are none.
  absl::Span<const int32_t> parents = {};
  // The rows whose logits are wanted. Empty: the walked rows.
  absl::Span<const int32_t> wanted = {};
  // A rule for each wanted row. Empty if no token is chosen or ranked.
  absl::Span<const kernels::ChoiceRule> rules = {};

  [[nodiscard]] int wanted_rows() const {
    return static_cast<int>(wanted.empty() ? parents.size() : wanted.size());
  }
};

class StepInputs {
 public:
  StepInputs() = default;  // Capacity 0.
  // `device` must outlive this object. REQUIRES: capacity.rows and tree_rows are multiples of 64.
  [[nodiscard]] static absl::StatusOr<StepInputs> Create(Device& device,
                                                         const StepCapacity& capacity);

  // Increments step() and sends `contents`, padded to `rows` rows, to the device. REQUIRES: the
  // copy of the previous step is complete; `contents` and `rows` fit the capacity.
  void Send(const StepContents& contents, int rows);

  // The inputs in device memory, as arguments for operations on the first `rows` rows.
  [[nodiscard]] kernels::Rows Rows(int rows) const;
  // The same, with only the walked rows and their spans in use.
  [[nodiscard]] kernels::Rows WalkedRows(int rows) const;
  [[nodiscard]] const int32_t* wanted() const { return On(block_.device).wanted; }         // [R]
  [[nodiscard]] const int32_t* wanted_used() const { return On(block_.device).used + 4; }  // [1]
  [[nodiscard]] const kernels::ChoiceRule* rules() const { return On(block_.device).rules; }
  // The number of the last step sent, and its address in device memory.
  [[nodiscard]] uint64_t step() const { return step_; }
  [[nodiscard]] const uint64_t* device_step() const { return On(block_.device).step; }

  [[nodiscard]] const StepCapacity& capacity() const { return capacity_; }

 private:
  // Addresses of all inputs in a block of memory.
  struct Sections {
    uint64_t* step;
    int32_t* used;  // [5]: number of rows, spans, walked rows, walked spans, wanted rows
    int32_t *tokens, *positions, *parents, *wanted;                // [R]
    int64_t* slots;                                                // [R]
    kernels::ChoiceRule* rules;                                    // [R]
    int32_t *first_rows, *cached, *earlier, *first_pages, *masks;  // [B + 1], then [B]
    uint64_t* ancestors;  // [R, words] bits; see RowBatch::AddTree
    int32_t* pages;
    size_t bytes;  // Size of everything before `pages`, the last section.
  };

  [[nodiscard]] Sections On(const Buffer& block) const;
  [[nodiscard]] int words() const { return capacity_.tree_rows / 64; }
  void FillRows(const StepContents& contents, int rows, const Sections& to) const;
  // Returns the number of entries in all page tables.
  [[nodiscard]] size_t FillSpans(const RowBatch& batch, const Sections& to) const;

  Device* device_ = nullptr;
  StepCapacity capacity_;
  uint64_t step_ = 0;
  Device::Mirrored block_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_STEP_INPUTS_H_
