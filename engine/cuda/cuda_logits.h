// Logits in the memory of a GPU.
#ifndef BASTION_ENGINE_CUDA_CUDA_LOGITS_H_
#define BASTION_ENGINE_CUDA_CUDA_LOGITS_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/model/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::nn {

class CudaLogits final : public Logits {
 public:
  // `stream` must outlive this object.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaLogits>> Create(
      int rows, int vocabulary, kernels::cuda::Stream& stream);

  float* Reserve(int /*rows*/) override { return values_.as<float>(); }
  int vocabulary() const override { return vocabulary_; }
  absl::Status Edit(const LogitEdits& edits) override;
  void Restore() override;
  void Choose(const Choice& choice) override;
  void Rank(const Ranking& ranking) override;
  void Scale(int rows, float factor, float cap) override;
  void CopyRows(int rows, float* to) override;
  int max_candidates() const override {
    return std::min(vocabulary_, kernels::cuda::kMaxCandidates);
  }
  absl::StatusOr<std::vector<TokenLogprobs>> Score(absl::Span<const Scored> scored) override;
  absl::StatusOr<float*> Row(int row) override;

 private:
  using Memory = kernels::cuda::Memory;

  CudaLogits(int vocabulary, kernels::cuda::Stream& stream)
      : vocabulary_(vocabulary), stream_(stream) {}

  [[nodiscard]] absl::Status Allocate(int rows);
  [[nodiscard]] absl::Status Mask(const LogitEdits& edits);
  // Makes `memory` hold `bytes`. Its contents are lost if it grows.
  [[nodiscard]] absl::Status Reserve(size_t bytes, Memory& memory);
  // Makes the host memory of Score hold `rows` rows with `candidates` tokens each.
  [[nodiscard]] absl::Status ReserveScores(size_t rows, size_t candidates);
  // Copies host memory to `memory`, which grows if it must.
  template <typename T>
  [[nodiscard]] absl::Status Send(const std::vector<T>& values, Memory& memory);
  [[nodiscard]] kernels::cuda::EditArgs edit_args() const;
  [[nodiscard]] float* At(int row) const {
    return values_.as<float>() + int64_t{row} * vocabulary_;
  }
  [[nodiscard]] size_t row_bytes() const { return vocabulary_ * sizeof(float); }

  const int vocabulary_;
  kernels::cuda::Stream& stream_;
  Memory values_;    // [R, V]
  Memory host_row_;  // [V], host memory
  Memory choose_scratch_, rank_scratch_;
  int edit_count_ = 0;
  Memory edits_, before_;  // [edits of the last step]; before_: the unedited logits
  Memory sets_, masked_;   // Those of kernels::cuda::MaskArgs.
  Memory kept_;            // [rows kept, V]
  std::vector<int> kept_rows_;
  // Host memory of Score: [n], [n], [n, K], [n, K].
  Memory scored_, chosen_, top_tokens_, top_log_probs_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_CUDA_CUDA_LOGITS_H_
