#include "engine/cuda/device_experts.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/gemm/gemm.h"

namespace bastion::cuda {
namespace {

using kernels::cuda::GemmArgs;

absl::Status CheckSupported(const hub::ModelConfig& config) {
  const hub::ExpertsConfig& experts = config.blocks.experts;
  if (experts.count <= kernels::cuda::kMaxExperts && config.dims.hidden % 8 == 0 &&
      experts.intermediate % 8 == 0) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "the GPU kernels do not support ", experts.count, " experts of width ", experts.intermediate,
      " with hidden size ", config.dims.hidden, ": the limit is ", kernels::cuda::kMaxExperts,
      " experts, and widths must be multiples of 8; use --device cpu"));
}

GemmArgs RouterProduct(const DeviceMatrix& router, const void* normed, float* logits, int rows) {
  GemmArgs args;
  args.shape = {router.dtype, rows, router.rows, router.columns, false};
  args.x = normed;
  args.weight = router.data();
  args.y = logits;
  return args;
}

}  // namespace

absl::StatusOr<DeviceExperts> DeviceExperts::Create(const hub::ModelConfig& config, DType dtype,
                                                    int rows) {
  RETURN_IF_ERROR(CheckSupported(config));
  DeviceExperts experts;
  experts.config_ = config.blocks.experts;
  experts.layers_ = config.expert_layers;
  experts.dtype_ = dtype;
  const size_t count = experts.config_.count, inner = experts.config_.intermediate;
  const size_t choices = size_t(rows) * experts.config_.chosen;
  constexpr char kWhat[] = "experts; lower --max_rows";
  const auto allocate = [&](Memory& memory, size_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(memory, Memory::OnDevice(bytes, kWhat));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(allocate(experts.logits_, rows * count * sizeof(float)));
  RETURN_IF_ERROR(allocate(experts.weights_, choices * sizeof(float)));
  RETURN_IF_ERROR(allocate(experts.experts_, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(experts.begins_, (count + 1) * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(experts.sources_, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(experts.places_, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(experts.gate_up_, choices * 2 * inner * sizeof(float)));
  RETURN_IF_ERROR(allocate(experts.activation_, choices * inner * BytesPerElement(dtype)));
  RETURN_IF_ERROR(allocate(experts.outputs_, choices * config.dims.hidden * sizeof(float)));
  const size_t touched = config.dims.layers * sizeof(int32_t);
  ASSIGN_OR_RETURN(experts.touched_, Memory::OnHost(touched, "counts of experts"));
  std::memset(experts.touched_.as<void>(), 0, touched);
  return experts;
}

kernels::cuda::ExpertProductArgs DeviceExperts::ProductOf(const DeviceMatrix& matrices) const {
  kernels::cuda::ExpertProductArgs args;
  args.weight = matrices.data();
  args.begins = begins_.as<int32_t>();
  args.dtype = dtype_;
  args.experts_total = config_.count;
  args.columns = matrices.rows / config_.count;
  args.depth = matrices.columns;
  return args;
}

void DeviceExperts::Add(const DeviceBlock& block, int layer, const Pass& pass, Gpu& gpu) {
  const int rows = pass.rows.row_capacity, choices = rows * config_.chosen;
  kernels::cuda::Stream& stream = *gpu.stream;
  gpu.gemm->Run(RouterProduct(block.router, pass.normed, logits_.as<float>(), rows), stream);
  kernels::cuda::Route({logits_.as<float>(), experts_.as<int32_t>(), weights_.as<float>(), rows,
                        config_.count, config_.chosen, config_.normalize},
                       stream);
  kernels::cuda::Group(
      {pass.rows, experts_.as<int32_t>(), begins_.as<int32_t>(), sources_.as<int32_t>(),
       places_.as<int32_t>(), touched_.as<int32_t>() + layer, config_.count, config_.chosen},
      stream);
  kernels::cuda::ExpertProductArgs up = ProductOf(block.expert_gate_up);
  up.x = pass.normed;
  up.sources = sources_.as<int32_t>();
  up.y = gate_up_.as<float>();
  kernels::cuda::ExpertProduct(up, stream);
  kernels::cuda::SiluMul(
      {gate_up_.as<float>(), activation_.as<void>(), dtype_, choices, config_.intermediate},
      stream);
  kernels::cuda::ExpertProductArgs down = ProductOf(block.expert_down);
  down.x = activation_.as<void>();
  down.y = outputs_.as<float>();
  kernels::cuda::ExpertProduct(down, stream);
  kernels::cuda::Combine({outputs_.as<float>(), places_.as<int32_t>(), weights_.as<float>(),
                          pass.hidden, rows, config_.chosen, block.router.columns},
                         stream);
}

absl::Status DeviceExperts::Prepare(const DeviceBlock& block, const void* normed, int rows,
                                    Gpu& gpu) {
  const GemmArgs args = RouterProduct(block.router, normed, logits_.as<float>(), rows);
  return gpu.gemm->Prepare(args, {args.weight}, *gpu.stream);
}

double DeviceExperts::touched() const {
  double sum = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layers_[layer]) sum += touched_.as<int32_t>()[layer];
  }
  const auto layers = std::count(layers_.begin(), layers_.end(), true);
  return layers == 0 ? 0 : sum / static_cast<double>(layers);
}

}  // namespace bastion::cuda
