// The operations of a decoder block on the CPU: each is a composition of a backend's kernels.
#ifndef BASTION_ENGINE_HOST_HOST_ACTIVATIONS_H_
#define BASTION_ENGINE_HOST_HOST_ACTIVATIONS_H_

#include <vector>

#include "engine/host/expert_groups.h"
#include "engine/host/streaming_attention.h"
#include "engine/model/device.h"

namespace bastion::nn {

class HostActivations final : public Activations {
 public:
  HostActivations(const HostKernels& host, const hub::ModelConfig& config,
                  const StreamingWindow& streaming)
      : host_(host),
        dims_(config.dims),
        join_(config.blocks.join),
        convolution_(config.blocks.convolution),
        streaming_(streaming) {}

  void Embed(const kernels::Rows& rows, const void* table, DType type) override;
  void Scale(const kernels::Rows& rows, float factor) override;
  void Project(const kernels::Rows& rows, const Matrix& matrix, const void* input) override;
  void Normalize(const kernels::Rows& rows, const Norm& norm, const Tap& tap) override;
  void Keep(const kernels::Rows& rows, int part) override;
  void Join(const kernels::Rows& /*rows*/) override {}  // Keep has done it.
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
  double touched_experts() const override {
    return expert_layers_ == 0 ? 0 : static_cast<double>(touched_experts_) / expert_layers_;
  }

 private:
  [[nodiscard]] int kv_width() const { return dims_.kv_heads * dims_.head_dim; }
  [[nodiscard]] int query_width() const { return dims_.query_heads * dims_.head_dim; }
  // y = x Wᵀ + bias, or y += x Wᵀ + bias.
  void Multiply(const Matrix& matrix, const float* x, float* y, int rows, bool accumulate) const;
  // x_ += input Wᵀ, convolved with side 1 if `convolution` is not null.
  void Add(const Matrix& matrix, const float* input, int rows, const Convolution* convolution);
  // Convolves x [R, C] with a side: y = or, for side 1, y += the result.
  void Convolve(const Convolution& convolution, int side, const float* x, float* y, int rows);
  // Stores x_ at `tap`.
  void Store(const Tap& tap, int rows) const;
  [[nodiscard]] kernels::QkvArgs KernelArgs(const kernels::Rows& rows, const QkvArgs& args) const;

  const HostKernels host_;
  const ModelDims dims_;
  const hub::JoinConfig join_;
  const hub::ConvolutionConfig convolution_;
  const StreamingWindow streaming_;
  float* x_ = nullptr;  // [R, C] The residual stream.
  Scratch residual_, normed_, joined_, shifted_, wanted_, qkv_, attention_, gate_up_, activation_;
  Scratch coefficients_, convolved_;  // [R, 2 T G], [R, C]: what is convolved, or the result
  std::vector<kernels::AttentionSpan> spans_;
  StreamingScratch sinks_;
  ExpertScratch experts_;
  int touched_experts_ = 0, expert_layers_ = 0;  // Those of the step so far.
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_HOST_ACTIVATIONS_H_
