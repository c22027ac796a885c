#include "engine/cuda/device_decoder.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/engine_progress.h"
#include "common/base/status.h"
#include "engine/model/rotary.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/ops.h"

namespace bastion::cuda {

using kernels::cuda::GemmArgs;
using kernels::cuda::QkvArgs;
using kernels::cuda::StepRows;

namespace {

int KvWidth(const ModelDims& dims) { return dims.kv_heads * dims.head_dim; }
int QueryWidth(const ModelDims& dims) { return dims.query_heads * dims.head_dim; }
int KvqWidth(const ModelDims& dims) { return 2 * KvWidth(dims) + QueryWidth(dims); }

GemmArgs Product(const DeviceMatrix& weight, int rows, bool accumulate) {
  GemmArgs args;
  args.shape = {weight.dtype, rows, weight.rows, weight.columns, accumulate};
  args.weight = weight.data();
  return args;
}

}  // namespace

void AddCost(const DeviceMatrix& matrix, nn::ForwardCost& cost) {
  cost.weight_bytes += static_cast<int64_t>(matrix.storage.bytes());
  cost.multiply_adds_per_row += int64_t{matrix.rows} * matrix.columns;
}

void RunProduct(const DeviceMatrix& weight, const void* x, float* y, int rows, Gpu& gpu) {
  GemmArgs args = Product(weight, rows, false);
  args.x = x;
  args.y = y;
  gpu.gemm->Run(args, *gpu.stream);
}

absl::Status PrepareProduct(const DeviceMatrix& weight, const void* x, float* y, int rows,
                            Gpu& gpu) {
  GemmArgs args = Product(weight, rows, false);
  args.x = x;
  args.y = y;
  return gpu.gemm->Prepare(args, {args.weight}, *gpu.stream);
}

absl::StatusOr<std::unique_ptr<DeviceDecoder>> DeviceDecoder::Load(DeviceLoader& loader,
                                                                   const hub::ModelConfig& config,
                                                                   const StepCapacity& capacity,
                                                                   Gpu& gpu) {
  const ModelDims& dims = config.dims;
  if (config.blocks.cpu_only) {
    return absl::UnimplementedError(absl::StrCat("the GPU engine does not implement ",
                                                 config.architecture, " yet; use --device cpu"));
  }
  if (!kernels::cuda::AttentionSupports(dims.query_heads, dims.kv_heads, dims.head_dim)) {
    return absl::UnimplementedError(absl::StrCat(
        "the GPU attention kernel does not support ", dims.query_heads, " query heads with ",
        dims.kv_heads, " KV heads of size ", dims.head_dim, "; use --device cpu"));
  }
  auto decoder = std::unique_ptr<DeviceDecoder>(new DeviceDecoder(config, loader.dtype(), gpu));
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    ASSIGN_OR_RETURN(DeviceBlock block, LoadDeviceBlock(loader, config, layer));
    decoder->blocks_.push_back(std::move(block));
  }
  ASSIGN_OR_RETURN(decoder->final_norm_, nn::LoadNorm(loader, config.names.final_norm, config));
  if (config.blocks.experts.count > 0) {
    ASSIGN_OR_RETURN(decoder->experts_,
                     DeviceExperts::Create(config, loader.dtype(), capacity.rows));
  }
  RETURN_IF_ERROR(decoder->Allocate(capacity));
  RETURN_IF_ERROR(decoder->FillRotary());
  return decoder;
}

absl::Status DeviceDecoder::Allocate(const StepCapacity& capacity) {
  const ModelDims& dims = config_.dims;
  const size_t rows = capacity.rows, element = BytesPerElement(dtype_);
  // One more page than the pool assigns, for padding rows.
  const size_t side = size_t(capacity.pages + 1) * kernels::kPageTokens * KvWidth(dims) * element;
  for (int layer = 0; layer < dims.layers; ++layer) {
    ASSIGN_OR_RETURN(Memory memory, Memory::OnDevice(2 * side, "the KV cache; lower --kv_tokens"));
    kv_layers_.push_back(
        {dtype_, dims.kv_heads, dims.head_dim, memory.as<char>(), memory.as<char>() + side});
    cache_.push_back(std::move(memory));
  }
  const size_t table = kv_layers_.size() * sizeof(kv_layers_[0]);
  ASSIGN_OR_RETURN(layer_table_, Memory::OnDevice(table, "the table of KV layers"));
  gpu_.stream->Copy(layer_table_.as<void>(), kv_layers_.data(), table);
  constexpr char kWhat[] = "activations";
  ASSIGN_OR_RETURN(hidden_, Memory::OnDevice(rows * dims.hidden * sizeof(float), kWhat));
  ASSIGN_OR_RETURN(normed_, Memory::OnDevice(rows * dims.hidden * element, kWhat));
  ASSIGN_OR_RETURN(kvq_, Memory::OnDevice(rows * KvqWidth(dims) * sizeof(float), kWhat));
  ASSIGN_OR_RETURN(query_, Memory::OnDevice(rows * QueryWidth(dims) * element, kWhat));
  ASSIGN_OR_RETURN(attention_, Memory::OnDevice(rows * QueryWidth(dims) * element, kWhat));
  ASSIGN_OR_RETURN(gate_up_, Memory::OnDevice(rows * 2 * dims.intermediate * sizeof(float), kWhat));
  ASSIGN_OR_RETURN(activation_, Memory::OnDevice(rows * dims.intermediate * element, kWhat));
  const size_t scratch = kernels::cuda::AttentionScratchBytes(
      capacity.rows, capacity.spans, dims.query_heads, dims.kv_heads, dims.head_dim);
  ASSIGN_OR_RETURN(scratch_, Memory::OnDevice(scratch, "partial results of attention"));
  return gpu_.stream->Synchronize();
}

absl::Status DeviceDecoder::FillRotary() {
  const size_t bytes = sizeof(float) * config_.max_positions * config_.blocks.rope.dims;
  ASSIGN_OR_RETURN(rope_, Memory::OnDevice(bytes, "the rotary table"));
  ASSIGN_OR_RETURN(const Memory host, Memory::OnHost(bytes, "the rotary table"));
  kernels::ThreadPool pool(1);
  nn::FillRotaryTable(config_, pool, host.as<float>());
  gpu_.stream->Copy(rope_.as<void>(), host.as<void>(), bytes);
  return gpu_.stream->Synchronize();
}

void DeviceDecoder::Norm(const DeviceNorm& weights, void* tap, int tap_stride, int rows) const {
  const auto epsilon = static_cast<float>(config_.blocks.norm_epsilon);
  const float* const x = hidden_.as<float>();
  void* const y = normed_.as<void>();
  switch (config_.blocks.norm) {
    case hub::NormKind::kRms:
      kernels::cuda::RmsNorm({x, weights.weight.as<float>(), y, tap, tap_stride, dtype_, rows,
                              config_.dims.hidden, epsilon},
                             *gpu_.stream);
      return;
    case hub::NormKind::kLayer:
      kernels::cuda::LayerNorm({x, weights.weight.as<float>(), weights.bias.as<float>(), y, tap,
                                tap_stride, dtype_, rows, config_.dims.hidden, epsilon},
                               *gpu_.stream);
      return;
  }
}

void DeviceDecoder::Multiply(const DeviceMatrix& weight, const void* x, float* y, int rows,
                             bool accumulate) const {
  GemmArgs args = Product(weight, rows, accumulate);
  args.x = x;
  args.y = y;
  gpu_.gemm->Run(args, *gpu_.stream);
  if (weight.has_bias()) {
    kernels::cuda::AddBias({y, weight.bias.as<float>(), rows, weight.rows}, *gpu_.stream);
  }
}

QkvArgs DeviceDecoder::QkvOf(int layer, const StepRows& rows) const {
  QkvArgs args;
  args.rows = rows;
  args.query_out = query_.as<void>();
  args.query_norm = blocks_[layer].query_norm.as<float>();  // Null without such norms.
  args.key_norm = blocks_[layer].key_norm.as<float>();
  args.rotary_dims = config_.blocks.rope.dims;
  args.cosine_sine = rope_.as<float>();
  args.cache = kv_layers_[layer];
  args.query_heads = config_.dims.query_heads;
  args.key = kvq_.as<float>();
  args.value = kvq_.as<float>() + KvWidth(config_.dims);
  args.epsilon = static_cast<float>(config_.blocks.norm_epsilon);
  return args;
}

void* DeviceDecoder::TapOf(int layer, const FeatureTaps& taps) const {
  for (size_t part = 0; part < taps.layers.size(); ++part) {
    if (taps.layers[part] != layer) continue;
    return static_cast<char*>(taps.features) + part * config_.dims.hidden * BytesPerElement(dtype_);
  }
  return nullptr;
}

void DeviceDecoder::RunBlock(int layer, const StepRows& rows) {
  const DeviceBlock& block = blocks_[layer];
  const int count = rows.row_capacity;
  const auto add_attention = [&] {
    Multiply(block.output, attention_.as<void>(), hidden_.as<float>(), count, true);
  };
  Multiply(block.kvq, normed_.as<void>(), kvq_.as<float>(), count, false);
  Attend(layer, rows);
  // With a parallel residual, the MLP reads the rows before attention is added to them.
  const bool parallel = config_.blocks.parallel_residual;
  if (!parallel) add_attention();
  Norm(block.mlp_norm, nullptr, 0, count);
  if (parallel) add_attention();
  if (config_.expert_layers[layer]) {
    experts_.Add(block, layer, {rows, normed_.as<void>(), hidden_.as<float>()}, gpu_);
  } else {
    AddMlp(block, count);
  }
}

void DeviceDecoder::Attend(int layer, const StepRows& rows) {
  const ModelDims& dims = config_.dims;
  QkvArgs project = QkvOf(layer, rows);
  project.query = kvq_.as<float>() + 2 * KvWidth(dims);
  project.stride = KvqWidth(dims);
  kernels::cuda::Qkv(project, *gpu_.stream);
  kernels::cuda::AttentionArgs attend;
  attend.rows = rows;
  attend.query = query_.as<void>();
  attend.output = attention_.as<void>();
  attend.cache = kv_layers_[layer];
  attend.query_heads = dims.query_heads;
  attend.window = config_.sliding_windows[layer];
  attend.causal = attend.window > 0 && config_.dflash.causal_windows;
  attend.scale = 1.0f / std::sqrt(static_cast<float>(dims.head_dim));
  attend.scratch = scratch_.as<void>();
  attend.multiprocessors = gpu_.info.multiprocessors;
  kernels::cuda::Attention(attend, *gpu_.stream);
}

void DeviceDecoder::AddMlp(const DeviceBlock& block, int rows) {
  const int width = config_.dims.intermediate;
  const float* const gate_up = gate_up_.as<float>();
  Multiply(block.gate_up, normed_.as<void>(), gate_up_.as<float>(), rows, false);
  switch (config_.blocks.mlp) {
    case hub::MlpKind::kGatedSilu:
      kernels::cuda::SiluMul({gate_up, activation_.as<void>(), dtype_, rows, width}, *gpu_.stream);
      break;
    case hub::MlpKind::kGelu:
      kernels::cuda::Gelu({gate_up, activation_.as<void>(), dtype_, rows, width}, *gpu_.stream);
      break;
  }
  Multiply(block.down, activation_.as<void>(), hidden_.as<float>(), rows, true);
}

void DeviceDecoder::Forward(const StepRows& rows, const FeatureTaps& taps) {
  const int width = static_cast<int>(taps.layers.size()) * config_.dims.hidden;
  // The norm before a layer also copies the output of the previous layer to the features.
  for (int layer = 0; layer < config_.dims.layers; ++layer) {
    Norm(blocks_[layer].attention_norm, TapOf(layer - 1, taps), width, rows.row_capacity);
    RunBlock(layer, rows);
  }
  CountProgress();
  Norm(final_norm_, TapOf(config_.dims.layers - 1, taps), width, rows.row_capacity);
}

void DeviceDecoder::StoreContext(const StepRows& rows, const void* context) {
  for (int layer = 0; layer < config_.dims.layers; ++layer) {
    const DeviceMatrix& kvq = blocks_[layer].kvq;
    GemmArgs args;
    args.shape = {dtype_, rows.row_capacity, 2 * KvWidth(config_.dims), kvq.columns, false};
    args.x = context;
    args.weight = kvq.data();
    args.y = kvq_.as<float>();
    gpu_.gemm->Run(args, *gpu_.stream);
    if (kvq.has_bias()) {
      kernels::cuda::AddBias(
          {kvq_.as<float>(), kvq.bias.as<float>(), rows.row_capacity, args.shape.columns},
          *gpu_.stream);
    }
    QkvArgs project = QkvOf(layer, rows);
    project.stride = 2 * KvWidth(config_.dims);
    kernels::cuda::Qkv(project, *gpu_.stream);
  }
}

absl::Status DeviceDecoder::Prepare(int rows, bool with_context) {
  // The matrix of each block that has it.
  const auto matrices_of = [&](auto matrix_of) {
    std::vector<const DeviceMatrix*> matrices;
    for (const DeviceBlock& block : blocks_) {
      if (matrix_of(block).rows > 0) matrices.push_back(&matrix_of(block));
    }
    return matrices;
  };
  const auto prepare = [&](auto matrix_of, GemmArgs args) {
    std::vector<const void*> weights;
    for (const DeviceMatrix* matrix : matrices_of(matrix_of)) weights.push_back(matrix->data());
    return gpu_.gemm->Prepare(args, weights, *gpu_.stream);
  };
  const auto products = [&](auto matrix_of, const Memory& x, const Memory& y,
                            bool accumulate) -> absl::Status {
    const std::vector<const DeviceMatrix*> matrices = matrices_of(matrix_of);
    if (matrices.empty()) return absl::OkStatus();
    GemmArgs args = Product(*matrices[0], rows, accumulate);
    args.x = x.as<void>();
    args.y = y.as<float>();
    return prepare(matrix_of, args);
  };
  const auto kvq = [](const DeviceBlock& block) -> const DeviceMatrix& { return block.kvq; };
  const auto output = [](const DeviceBlock& block) -> const DeviceMatrix& { return block.output; };
  const auto gate_up = [](const DeviceBlock& block) -> const DeviceMatrix& {
    return block.gate_up;
  };
  const auto down = [](const DeviceBlock& block) -> const DeviceMatrix& { return block.down; };
  RETURN_IF_ERROR(products(kvq, normed_, kvq_, false));
  RETURN_IF_ERROR(products(output, attention_, hidden_, true));
  RETURN_IF_ERROR(products(gate_up, normed_, gate_up_, false));
  RETURN_IF_ERROR(products(down, activation_, hidden_, true));
  for (const DeviceBlock& block : blocks_) {
    if (block.router.rows == 0) continue;
    RETURN_IF_ERROR(experts_.Prepare(block, normed_.as<void>(), rows, gpu_));
    break;  // All routers have the same shape.
  }
  if (!with_context) return absl::OkStatus();
  GemmArgs context = Product(blocks_[0].kvq, rows, false);
  context.shape.columns = 2 * KvWidth(config_.dims);
  context.x = normed_.as<void>();
  context.y = kvq_.as<float>();
  return prepare(kvq, context);
}

nn::ForwardCost DeviceDecoder::Cost() const {
  nn::ForwardCost cost;
  cost.dtype = dtype_;
  for (const DeviceBlock& block : blocks_) {
    for (const DeviceMatrix* matrix :
         {&block.kvq, &block.output, &block.gate_up, &block.down, &block.router}) {
      AddCost(*matrix, cost);
    }
    if (block.router.rows == 0) continue;
    cost.experts = config_.blocks.experts.count;
    cost.chosen_experts = config_.blocks.experts.chosen;
    for (const DeviceMatrix* matrix : {&block.expert_gate_up, &block.expert_down}) {
      cost.AddExperts(static_cast<int64_t>(matrix->storage.bytes()),
                      int64_t{matrix->rows} * matrix->columns);
    }
  }
  cost.kv_bytes_per_token = int64_t{2} * config_.dims.layers * KvWidth(config_.dims) *
                            static_cast<int64_t>(BytesPerElement(dtype_));
  return cost;
}

}  // namespace bastion::cuda
