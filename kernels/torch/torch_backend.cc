#include "kernels/torch/torch_backend.h"

#include "kernels/torch/kernels.h"

namespace bastion::kernels {
namespace {

std::string Describe() { return "libtorch " TORCH_VERSION " " + at::get_cpu_capability(); }

template <at::ScalarType kCompute>
constexpr Backend Table() {
  return {
      .linear = torch::Linear<kCompute>,
      .rms_norm = torch::RmsNorm<kCompute>,
      .layer_norm = torch::LayerNorm<kCompute>,
      .embed = torch::Embed,
      .qkv = torch::Qkv<kCompute>,
      .attention = torch::Attention<kCompute>,
      .silu_mul = torch::SiluMul<kCompute>,
      .gelu = torch::Gelu<kCompute>,
      .scale = torch::Scale<kCompute>,
      .convolve = torch::Convolve<kCompute>,
      .route = torch::Route<kCompute>,
      .gather_rows = torch::GatherRows,
      .combine = torch::Combine<kCompute>,
      .choose = torch::Choose,
      .top_k = torch::TopK,
      .kv_move = torch::KvMove,
      .describe = Describe,
  };
}

}  // namespace

const Backend& TorchBackend() {
  static constexpr Backend backend = Table<at::kFloat>();
  return backend;
}

const Backend& TorchOracle() {
  static constexpr Backend backend = Table<at::kDouble>();
  return backend;
}

}  // namespace bastion::kernels
