// The mixture of experts of CudaActivations.
#include <algorithm>

#include "common/base/status.h"
#include "engine/cuda/cuda_activations.h"
#include "kernels/cuda/product/expert_product.h"

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
  expert_tiles_ = kernels::cuda::MaxExpertTiles(static_cast<int>(rows), experts_config_.chosen,
                                                experts_config_.count);
  RETURN_IF_ERROR(allocate(tiles_, expert_tiles_ * sizeof(kernels::cuda::ExpertRows)));
  RETURN_IF_ERROR(allocate(route_counts_, 2 * sizeof(int32_t)));
  RETURN_IF_ERROR(allocate(outputs_, choices * dims_.hidden * sizeof(float)));
  ASSIGN_OR_RETURN(touched_, Memory::OnHost(dims_.layers * sizeof(int32_t), "counts of experts"));
  return absl::OkStatus();
}

void CudaActivations::Route(const kernels::Rows& rows, const ExpertArgs& args) {
  const hub::ExpertsConfig& config = *args.config;
  const int count = rows.row_capacity;
  Multiply(*args.router, {normed_.as<void>(), router_logits_.as<float>(), count});
  kernels::cuda::GroupedRouteArgs route;
  route.route = {router_logits_.as<float>(),
                 experts_.as<int32_t>(),
                 weights_.as<float>(),
                 count,
                 config.count,
                 config.chosen,
                 config.normalize};
  route.rows = rows;
  route.begins = begins_.as<int32_t>();
  route.sources = sources_.as<int32_t>();
  route.places = places_.as<int32_t>();
  route.touched = touched_.as<int32_t>() + args.layer;
  route.tiles = tiles_.as<kernels::cuda::ExpertRows>();
  route.tile_count = route_counts_.as<int32_t>();
  route.arrived = route_counts_.as<uint32_t>() + 1;
  kernels::cuda::Route(route, *gpu_.stream);
}

void CudaActivations::MultiplyExperts(const Matrix& matrices, const void* x, const int32_t* sources,
                                      float* y, void* activation) {
  kernels::cuda::ExpertProductArgs args;
  args.x = static_cast<const uint16_t*>(x);
  args.sources = sources;
  args.weight = matrices.data();
  args.int8 = matrices.format == WeightFormat::kInt8;
  args.tiles = tiles_.as<kernels::cuda::ExpertRows>();
  args.tile_count = route_counts_.as<int32_t>();
  args.tile_capacity = expert_tiles_;
  args.chosen = experts_config_.chosen;
  args.columns = matrices.rows;
  args.depth = matrices.columns;
  args.y = y;
  args.activation = static_cast<uint16_t*>(activation);
  kernels::cuda::ExpertProduct(args, kernels::cuda::PlanExperts(args, gpu_.info), *gpu_.stream);
}

void CudaActivations::MultiplyExpertsF32(const Matrix& matrices, const void* x,
                                         const int32_t* sources, float* y) {
  kernels::cuda::ExpertProductF32Args args;
  args.x = static_cast<const float*>(x);
  args.sources = sources;
  args.weight = static_cast<const float*>(static_cast<const void*>(matrices.data()));
  args.begins = begins_.as<int32_t>();
  args.y = y;
  args.experts_total = matrices.count;
  args.columns = matrices.rows;
  args.depth = matrices.columns;
  kernels::cuda::ExpertProductF32(args, *gpu_.stream);
}

void CudaActivations::AddExperts(const kernels::Rows& rows, const ExpertArgs& args) {
  Normalize(rows, *args.norm, {});
  Route(rows, args);
  const hub::ExpertsConfig& config = *args.config;
  const int count = rows.row_capacity;
  void* const activation = activation_.as<void>();
  const auto* const sources = sources_.as<int32_t>();
  if (type_ == DType::kBF16) {
    MultiplyExperts(*args.gate_up, normed_.as<void>(), sources, nullptr, activation);
    MultiplyExperts(*args.down, activation, nullptr, outputs_.as<float>(), nullptr);
  } else {
    MultiplyExpertsF32(*args.gate_up, normed_.as<void>(), sources, gate_up_.as<float>());
    kernels::cuda::SiluMul(
        {gate_up_.as<float>(), activation, type_, count * config.chosen, config.intermediate},
        *gpu_.stream);
    MultiplyExpertsF32(*args.down, activation, nullptr, outputs_.as<float>());
  }
  kernels::cuda::Combine({outputs_.as<float>(), places_.as<int32_t>(), weights_.as<float>(),
                          hidden_.as<float>(), count, config.chosen, dims_.hidden},
                         *gpu_.stream);
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
