// CudaLogitEdits: does on a GPU what LogitEdits and MaskRow do on a CPU (logit_edits.h).
// Thread-compatible.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_LOGIT_EDITS_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_LOGIT_EDITS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"
#include "verifier_service/verify/choose_tokens.h"

namespace bastion::verifier {

class CudaLogitEdits {
 public:
  // `logits` [R, V] in device memory. `stream` must outlive this object.
  CudaLogitEdits(kernels::cuda::Stream& stream, float* logits, int vocabulary)
      : stream_(&stream), logits_(logits), vocabulary_(vocabulary) {}

  // Edits and masks all rows of `trees`, each as if the path to that row had been committed.
  // Histories are extended during the call and restored. RESOURCE_EXHAUSTED if the GPU's memory is
  // full. REQUIRES: the logits are new since the last Apply.
  [[nodiscard]] absl::Status Apply(absl::Span<const TreeRows> trees);

  // Puts work on the stream that restores the logits, except those of tokens that a constraint
  // excludes, if the request asks for no log-probabilities.
  void Undo();

 private:
  using Memory = kernels::cuda::Memory;

  [[nodiscard]] absl::Status Edit(absl::Span<const TreeRows> trees);
  [[nodiscard]] absl::Status Mask(absl::Span<const TreeRows> trees);
  // Copies the rows before they are masked, where the request asks for log-probabilities.
  [[nodiscard]] absl::Status Keep(absl::Span<const TreeRows> trees);
  // Makes `memory` hold `bytes`. Its contents are lost if it grows.
  [[nodiscard]] absl::Status Reserve(size_t bytes, Memory& memory);
  [[nodiscard]] kernels::cuda::EditArgs edit_args() const;
  [[nodiscard]] float* row(int index) const { return logits_ + int64_t{index} * vocabulary_; }

  kernels::cuda::Stream* stream_;
  float* logits_;
  int vocabulary_;
  int edit_count_ = 0;
  Memory edits_, before_;      // [edits of the last step]; before_: the unedited logits
  Memory sets_, masked_rows_;  // Those of MaskArgs.
  Memory kept_;                // [rows kept, V]
  std::vector<int> kept_rows_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_LOGIT_EDITS_H_
