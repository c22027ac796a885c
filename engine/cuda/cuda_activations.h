// The operations of a decoder block on a GPU: each is a composition of kernels. The residual stream
// and the outputs of products are fp32. The inputs of products, the queries and the KV cache have
// the type of the weights.
#ifndef BASTION_ENGINE_CUDA_CUDA_ACTIVATIONS_H_
#define BASTION_ENGINE_CUDA_CUDA_ACTIVATIONS_H_

#include <memory>
#include <vector>

#include "engine/cuda/products.h"
#include "engine/model/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::nn {

// What the operations run on.
struct Gpu {
  kernels::cuda::DeviceInfo info;
  std::unique_ptr<kernels::cuda::Stream> stream;
  std::unique_ptr<Products> products;
};

// UNIMPLEMENTED for models that the kernels do not support.
[[nodiscard]] absl::Status CheckKernelsSupport(const hub::ModelConfig& config);

class CudaActivations final : public Activations {
 public:
  // Memory for steps of at most `capacity`. `gpu` must outlive this object.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaActivations>> Create(
      const hub::ModelConfig& config, const EngineOptions& options, const StepCapacity& capacity,
      Gpu& gpu);

  void Embed(const kernels::Rows& rows, const void* table, DType type) override;
  void Scale(const kernels::Rows& rows, float factor) override;
  void Project(const kernels::Rows& rows, const Matrix& matrix, const void* input) override;
  void Normalize(const kernels::Rows& rows, const Norm& norm, const Tap& tap) override;
  void Keep(const kernels::Rows& rows, int part) override;
  void Join(const kernels::Rows& rows) override;
  void Restart(const kernels::Rows& rows) override;
  void ProjectJoined(const kernels::Rows& rows, const Matrix& matrix) override;
  void Shift(const kernels::Rows& rows, const Matrix& matrix, const Norm& norm) override;
  void ConvolveInput(const kernels::Rows& rows, const Norm& norm, const Tap& tap,
                     const Convolution& convolution) override;
  void Qkv(const kernels::Rows& rows, const QkvArgs& args) override;
  void StoreKeysValues(const kernels::Rows& rows, const QkvArgs& args) override;
  void Attend(const kernels::Rows& rows, const AttendArgs& args) override;
  void AddAttention(const kernels::Rows& rows, const Matrix& output,
                    const Convolution* convolution) override;
  void GateUp(const kernels::Rows& rows, const Norm* norm, const Matrix& gate_up,
              hub::MlpKind kind) override;
  void AddMlp(const kernels::Rows& rows, const Matrix& down,
              const Convolution* convolution) override;
  void AddExperts(const kernels::Rows& rows, const ExpertArgs& args) override;
  void AddSilu(const kernels::Rows& rows, const Matrix& matrix) override;
  void Head(const Matrix& head, const int32_t* wanted, int rows, Logits& logits) override;
  double touched_experts() const override;

 private:
  using Memory = kernels::cuda::Memory;

  CudaActivations(const hub::ModelConfig& config, const EngineOptions& options, Gpu& gpu)
      : dims_(config.dims),
        join_(config.blocks.join),
        convolution_(config.blocks.convolution),
        experts_config_(config.blocks.experts),
        expert_layers_(config.expert_layers),
        type_(options.formats.activations),
        streaming_(options.streaming),
        gpu_(gpu) {}

  [[nodiscard]] absl::Status Allocate(const StepCapacity& capacity);
  [[nodiscard]] absl::Status AllocateExperts(size_t rows);
  [[nodiscard]] absl::Status AllocateJoined(size_t rows);
  [[nodiscard]] absl::Status AllocateConvolved(size_t rows);
  // Adds to the residual stream what it lacks.
  void Settle();
  // Settles, because a product replaces the sums of the one before it.
  void Multiply(const Matrix& matrix, const Products::Rows& rows);
  // Normalize, with the normed rows at `to`.
  void NormalizeTo(void* to, const kernels::Rows& rows, const Norm& norm, const Tap& tap);
  // The residual stream += input Wᵀ, convolved with side 1 if `convolution` is not null.
  void Add(const Matrix& matrix, const void* input, int rows, const Convolution* convolution);
  // The arguments for a side of a convolution, without x, y and dtype.
  [[nodiscard]] kernels::cuda::ConvolveArgs ConvolveArgs(const Convolution& convolution, int side,
                                                         int rows) const;
  [[nodiscard]] kernels::cuda::QkvArgs KernelArgs(const kernels::Rows& rows,
                                                  const QkvArgs& args) const;
  // The product, and the kernel that rotates and stores its result. Sets the inputs of `project`.
  void ProjectQkv(const Matrix& matrix, const Products::Rows& product,
                  kernels::cuda::QkvArgs& project);
  // Chooses experts for the normed rows, and groups the rows by expert.
  void Route(const kernels::Rows& rows, const ExpertArgs& args);
  // The products of the grouped rows, with the rows x[sources], or x without sources. In bf16, the
  // result is y, or the activation if that is not null.
  void MultiplyExperts(const Matrix& matrices, const void* x, const int32_t* sources, float* y,
                       void* activation);
  void MultiplyExpertsF32(const Matrix& matrices, const void* x, const int32_t* sources, float* y);
  [[nodiscard]] int kv_width() const { return dims_.kv_heads * dims_.head_dim; }
  [[nodiscard]] int query_width() const { return dims_.query_heads * dims_.head_dim; }

  const ModelDims dims_;
  const hub::JoinConfig join_;
  const hub::ConvolutionConfig convolution_;
  const hub::ExpertsConfig experts_config_;
  const std::vector<bool> expert_layers_;  // Whether a layer has experts.
  const DType type_;
  const StreamingWindow streaming_;
  Gpu& gpu_;
  // Sums that the residual stream lacks: the next norm adds them, and so spares a kernel.
  kernels::cuda::Sums missing_;
  Memory hidden_, normed_, wanted_, qkv_, query_, attention_, gate_up_, activation_, scratch_;
  Memory sink_query_;  // [R, H D]: the queries for attention sinks.
  // For joined rows: the kept parts [parts, capacity, C], the joined rows [R, parts C], and the
  // places of the latter's parts among the former [R, parts].
  Memory parts_, joined_, part_places_;
  // For convolutions: normed rows [R, C], coefficients [R, 2 T G], outputs of sublayers [R, C].
  Memory plain_, coefficients_, added_;
  Memory pairs_;        // [R, 2] Each row, and the row before it (Shift).
  Memory row_numbers_;  // [R] 0, 1, …
  size_t capacity_ = 0;
  int attention_chunks_ = 0;
  Memory router_logits_, weights_;              // [R, E], [R, k]
  Memory experts_, begins_, sources_, places_;  // [R, k], [E + 1], [R k], [R, k]
  Memory outputs_;                              // [R k, C]; gate_up_ [R k, 2 I] and activation_ too
  Memory tiles_, route_counts_;                 // [expert_tiles_], [2]
  Memory touched_;                              // [L], host memory
  int expert_tiles_ = 0;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_CUDA_CUDA_ACTIVATIONS_H_
