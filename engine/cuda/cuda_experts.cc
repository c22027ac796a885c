// The mixture of experts of CudaActivations.
#include <algorithm>

#include "common/base/status.h"
#include "engine/cuda/cuda_activations.h"

namespace bastion::nn {

absl::Status CudaActivations::AllocateExperts(size_t rows) {
  const size_t count = experts_config_.count, choices = rows * experts_config_.chosen;
  const auto allocate = [](Memory& memory, size_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(memory, Memory::OnDevice(bytes, "experts; lower --max_rows"));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(allocate(router_logits_, rows * count * sizeof(float)));
  RETURN_IF_ERROR(allocate(weights_, choices * sizeof(float)));
  RETURN_IF_ERROR(allocate(experts_, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(begins_, (count + 1) * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(sources_, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(places_, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(outputs_, choices * dims_.hidden * sizeof(float)));
  ASSIGN_OR_RETURN(touched_, Memory::OnHost(dims_.layers * sizeof(int32_t), "counts of experts"));
  return absl::OkStatus();
}

kernels::cuda::ExpertProductArgs CudaActivations::ProductOf(const Matrix& matrices) const {
  kernels::cuda::ExpertProductArgs args;
  args.weight = matrices.data();
  args.begins = begins_.as<int32_t>();
  args.dtype = type_;
  args.experts_total = matrices.count;
  args.columns = matrices.rows;
  args.depth = matrices.columns;
  return args;
}

void CudaActivations::AddExperts(const kernels::Rows& rows, const ExpertArgs& args) {
  Normalize(rows, *args.norm, {});
  const hub::ExpertsConfig& config = *args.config;
  const int count = rows.row_capacity, choices = count * config.chosen;
  kernels::cuda::Stream& stream = *gpu_.stream;
  auto* const experts = experts_.as<int32_t>();
  Multiply(*args.router, {normed_.as<void>(), router_logits_.as<float>(), count});
  kernels::cuda::Route({router_logits_.as<float>(), experts, weights_.as<float>(), count,
                        config.count, config.chosen, config.normalize},
                       stream);
  kernels::cuda::Group(
      {rows, experts, begins_.as<int32_t>(), sources_.as<int32_t>(), places_.as<int32_t>(),
       touched_.as<int32_t>() + args.layer, config.count, config.chosen},
      stream);
  kernels::cuda::ExpertProductArgs up = ProductOf(*args.gate_up);
  up.x = normed_.as<void>();
  up.sources = sources_.as<int32_t>();
  up.y = gate_up_.as<float>();
  kernels::cuda::ExpertProduct(up, stream);
  kernels::cuda::SiluMul(
      {gate_up_.as<float>(), activation_.as<void>(), type_, choices, config.intermediate}, stream);
  kernels::cuda::ExpertProductArgs down = ProductOf(*args.down);
  down.x = activation_.as<void>();
  down.y = outputs_.as<float>();
  kernels::cuda::ExpertProduct(down, stream);
  kernels::cuda::Combine({outputs_.as<float>(), places_.as<int32_t>(), weights_.as<float>(),
                          hidden_.as<float>(), count, config.chosen, dims_.hidden},
                         stream);
}

double CudaActivations::touched_experts() const {
  double sum = 0;
  for (size_t layer = 0; layer < expert_layers_.size(); ++layer) {
    if (expert_layers_[layer]) sum += touched_.as<int32_t>()[layer];
  }
  const auto layers = std::count(expert_layers_.begin(), expert_layers_.end(), true);
  return layers == 0 ? 0 : sum / static_cast<double>(layers);
}

}  // namespace bastion::nn
