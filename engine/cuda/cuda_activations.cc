#include "engine/cuda/cuda_activations.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::nn {

using kernels::Rows;

absl::Status CheckKernelsSupport(const hub::ModelConfig& config) {
  const ModelDims& dims = config.dims;
  if (!kernels::cuda::AttentionSupports(dims.query_heads, dims.kv_heads, dims.head_dim)) {
    return absl::UnimplementedError(absl::StrCat(
        "the GPU attention kernel does not support ", dims.query_heads, " query heads with ",
        dims.kv_heads, " KV heads of size ", dims.head_dim, "; use --device cpu"));
  }
  const hub::ExpertsConfig& experts = config.blocks.experts;
  if (experts.count <= kernels::cuda::kMaxExperts && dims.hidden % 8 == 0 &&
      experts.intermediate % 8 == 0) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "the GPU kernels do not support ", experts.count, " experts of width ", experts.intermediate,
      " with hidden size ", dims.hidden, ": the limit is ", kernels::cuda::kMaxExperts,
      " experts, and widths must be multiples of 8; use --device cpu"));
}

absl::StatusOr<std::unique_ptr<CudaActivations>> CudaActivations::Create(
    const hub::ModelConfig& config, const EngineOptions& options, const StepCapacity& capacity,
    Gpu& gpu) {
  auto activations = std::unique_ptr<CudaActivations>(new CudaActivations(config, options, gpu));
  RETURN_IF_ERROR(activations->Allocate(capacity));
  if (config.blocks.experts.count > 0) {
    RETURN_IF_ERROR(activations->AllocateExperts(capacity.rows));
  }
  if (config.blocks.join.parts > 0) {
    RETURN_IF_ERROR(activations->AllocateJoined(capacity.rows));
  }
  if (config.blocks.convolution.taps > 0) {
    RETURN_IF_ERROR(activations->AllocateConvolved(capacity.rows));
  }
  return activations;
}

absl::Status CudaActivations::Allocate(const StepCapacity& capacity) {
  const size_t rows = capacity.rows, element = Bytes(type_, 1);
  // The inner rows of a step, or of its choices of experts.
  const size_t inner = std::max(rows * dims_.intermediate,
                                rows * experts_config_.chosen * experts_config_.intermediate);
  const auto allocate = [](Memory& memory, size_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(memory, Memory::OnDevice(bytes, "activations; lower --max_rows"));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(allocate(hidden_, rows * dims_.hidden * sizeof(float)));
  RETURN_IF_ERROR(allocate(normed_, rows * dims_.hidden * element));
  RETURN_IF_ERROR(allocate(wanted_, rows * dims_.hidden * element));
  RETURN_IF_ERROR(allocate(qkv_, rows * (2 * kv_width() + query_width()) * sizeof(float)));
  RETURN_IF_ERROR(allocate(query_, rows * query_width() * element));
  if (streaming_.sinks > 0) {
    RETURN_IF_ERROR(allocate(sink_query_, rows * query_width() * element));
  }
  RETURN_IF_ERROR(allocate(attention_, rows * query_width() * element));
  RETURN_IF_ERROR(allocate(gate_up_, 2 * inner * sizeof(float)));
  RETURN_IF_ERROR(allocate(activation_, inner * element));
  attention_chunks_ = kernels::cuda::AttentionChunks(
      std::min(capacity.tokens, capacity.pages * kernels::kPageTokens));
  return allocate(scratch_,
                  kernels::cuda::AttentionScratchBytes(capacity.rows, dims_.query_heads,
                                                       dims_.head_dim, attention_chunks_));
}

absl::Status CudaActivations::AllocateJoined(size_t rows) {
  constexpr char kWhat[] = "joined rows; lower --max_rows";
  const size_t parts = std::max(join_.parts, 2), bytes = parts * rows * Bytes(type_, dims_.hidden);
  ASSIGN_OR_RETURN(parts_, Memory::OnDevice(bytes, kWhat));
  ASSIGN_OR_RETURN(joined_, Memory::OnDevice(bytes, kWhat));
  std::vector<int32_t> places, pairs, numbers(rows);
  for (size_t row = 0; row < rows; ++row) {
    numbers[row] = static_cast<int32_t>(row);
    for (int part = 0; part < join_.parts; ++part) {
      places.push_back(static_cast<int32_t>(part * rows + row));
    }
    const bool first = join_.shift_rows == 0 || row % join_.shift_rows == 0;
    pairs.push_back(numbers[row]);
    pairs.push_back(first ? numbers[row] : numbers[row] - 1);
  }
  const auto send = [&](const std::vector<int32_t>& values, Memory& to) -> absl::Status {
    ASSIGN_OR_RETURN(to, Memory::OnDevice(values.size() * sizeof(int32_t), kWhat));
    gpu_.stream->Copy(to.as<void>(), values.data(), values.size() * sizeof(int32_t));
    return gpu_.stream->Synchronize();
  };
  RETURN_IF_ERROR(send(places, part_places_));
  RETURN_IF_ERROR(send(pairs, pairs_));
  RETURN_IF_ERROR(send(numbers, row_numbers_));
  capacity_ = rows;
  return absl::OkStatus();
}

absl::Status CudaActivations::AllocateConvolved(size_t rows) {
  constexpr char kWhat[] = "convolved rows; lower --max_sequences";
  const size_t width = dims_.hidden;
  const size_t coefficients = size_t{2} * convolution_.taps * (width / convolution_.group);
  ASSIGN_OR_RETURN(plain_, Memory::OnDevice(rows * Bytes(type_, dims_.hidden), kWhat));
  ASSIGN_OR_RETURN(coefficients_, Memory::OnDevice(rows * coefficients * sizeof(float), kWhat));
  ASSIGN_OR_RETURN(added_, Memory::OnDevice(rows * width * sizeof(float), kWhat));
  return absl::OkStatus();
}

void CudaActivations::Settle() {
  if (missing_.ranges == 0) return;
  kernels::cuda::AddSums({missing_, hidden_.as<float>(), missing_.stride, /*accumulate=*/true},
                         *gpu_.stream);
  missing_ = {};
}

void CudaActivations::Multiply(const Matrix& matrix, const Products::Rows& rows) {
  Settle();
  gpu_.products->Multiply(matrix, rows);
}

void CudaActivations::Embed(const Rows& rows, const void* table, DType type) {
  CHECK_EQ(missing_.ranges, 0) << "the residual stream is replaced before it was complete";
  kernels::cuda::Embed({rows, table, type, hidden_.as<float>(), dims_.hidden}, *gpu_.stream);
}

void CudaActivations::Scale(const Rows& rows, float factor) {
  Settle();
  kernels::cuda::Scale({hidden_.as<float>(), rows.row_capacity, dims_.hidden, factor},
                       *gpu_.stream);
}

void CudaActivations::Project(const Rows& rows, const Matrix& matrix, const void* input) {
  CHECK_EQ(missing_.ranges, 0) << "the residual stream is replaced before it was complete";
  Multiply(matrix, {input, hidden_.as<float>(), rows.row_capacity});
}

void CudaActivations::Normalize(const Rows& rows, const Norm& norm, const Tap& tap) {
  NormalizeTo(normed_.as<void>(), rows, norm, tap);
}

void CudaActivations::NormalizeTo(void* to, const Rows& rows, const Norm& norm, const Tap& tap) {
  const float* const weight = norm.weight.as<float>();
  const kernels::cuda::Sums added = std::exchange(missing_, {});
  switch (norm.kind) {
    case hub::NormKind::kRms:
      kernels::cuda::RmsNorm({hidden_.as<float>(), weight, to, tap.to, tap.stride, type_,
                              rows.row_capacity, norm.width, norm.epsilon, added},
                             *gpu_.stream);
      return;
    case hub::NormKind::kLayer:
      kernels::cuda::LayerNorm(
          {hidden_.as<float>(), weight, norm.bias.as<float>(), to, tap.to, tap.stride, type_,
           rows.row_capacity, norm.width, norm.epsilon, added},
          *gpu_.stream);
      return;
  }
}

void CudaActivations::Keep(const Rows& rows, int part) {
  const size_t row_bytes = Bytes(type_, dims_.hidden);
  gpu_.stream->Copy(parts_.as<char>() + part * capacity_ * row_bytes, normed_.as<void>(),
                    rows.row_capacity * row_bytes);
}

void CudaActivations::Join(const Rows& rows) {
  kernels::cuda::GatherRows({parts_.as<void>(), part_places_.as<int32_t>(), joined_.as<void>(),
                             type_, join_.parts * rows.row_capacity, dims_.hidden},
                            *gpu_.stream);
}

void CudaActivations::Restart(const Rows& rows) {
  Rows numbered = rows;
  numbered.tokens = row_numbers_.as<int32_t>();
  Embed(numbered, normed_.as<void>(), type_);
}

void CudaActivations::ProjectJoined(const Rows& rows, const Matrix& matrix) {
  Project(rows, matrix, joined_.as<void>());
}

void CudaActivations::Shift(const Rows& rows, const Matrix& matrix, const Norm& norm) {
  // The tap stores the residual stream in the input type of products.
  Normalize(rows, norm, {parts_.as<void>(), dims_.hidden, type_});
  kernels::cuda::GatherRows({parts_.as<void>(), pairs_.as<int32_t>(), joined_.as<void>(), type_,
                             2 * rows.row_capacity, dims_.hidden},
                            *gpu_.stream);
  Project(rows, matrix, joined_.as<void>());
}

kernels::cuda::ConvolveArgs CudaActivations::ConvolveArgs(const Convolution& convolution, int side,
                                                          int rows) const {
  const int taps = convolution_.taps, width = dims_.hidden, groups = width / convolution_.group;
  kernels::cuda::ConvolveArgs args;
  args.base = convolution.base.as<float>() + int64_t{side} * taps * width;
  args.coefficients = coefficients_.as<float>() + int64_t{side} * taps * groups;
  args.rows = rows;
  args.width = width;
  args.taps = taps;
  args.group = convolution_.group;
  args.block_rows = convolution_.block_rows;
  args.stride = convolution.projection.rows;
  return args;
}

void CudaActivations::ConvolveInput(const Rows& rows, const Norm& norm, const Tap& tap,
                                    const Convolution& convolution) {
  NormalizeTo(plain_.as<void>(), rows, norm, tap);
  Multiply(convolution.projection,
           {plain_.as<void>(), coefficients_.as<float>(), rows.row_capacity});
  kernels::cuda::ConvolveArgs args = ConvolveArgs(convolution, 0, rows.row_capacity);
  args.x = plain_.as<void>();
  args.y = normed_.as<void>();
  args.dtype = type_;
  kernels::cuda::Convolve(args, *gpu_.stream);
}

void CudaActivations::Add(const Matrix& matrix, const void* input, int rows,
                          const Convolution* convolution) {
  const Products::Rows sum = {input, hidden_.as<float>(), rows, /*accumulate=*/true};
  if (convolution == nullptr && matrix.bias.as<float>() == nullptr) {
    Settle();
    missing_ = gpu_.products->Start(matrix, sum);
    return;
  }
  if (convolution == nullptr) return Multiply(matrix, sum);
  Multiply(matrix, {input, added_.as<float>(), rows});
  kernels::cuda::ConvolveArgs args = ConvolveArgs(*convolution, 1, rows);
  args.x = added_.as<void>();
  args.y = hidden_.as<void>();
  args.dtype = DType::kF32;
  args.accumulate = true;
  kernels::cuda::Convolve(args, *gpu_.stream);
}

kernels::cuda::QkvArgs CudaActivations::KernelArgs(const Rows& rows, const QkvArgs& args) const {
  kernels::cuda::QkvArgs project;
  project.rows = rows;
  project.query_out = query_.as<void>();
  project.sink_query_out = sink_query_.as<void>();  // Null without sinks.
  project.last_place = streaming_.sinks + streaming_.tokens - 1;
  project.query_norm = args.query_norm->as<float>();  // Null without such norms.
  project.key_norm = args.key_norm->as<float>();
  project.rotary_dims = args.rotary_dims;
  project.cosine_sine = args.rotary;
  project.cache = args.cache;
  project.query_heads = dims_.query_heads;
  project.epsilon = args.epsilon;
  return project;
}

// Multiplies the first `outputs` rows of the matrix, and projects the sums or the result.
void CudaActivations::ProjectQkv(const Matrix& matrix, const Products::Rows& product,
                                 kernels::cuda::QkvArgs& project) {
  const float* from = product.y;
  if (matrix.bias.as<float>() != nullptr) {
    Multiply(matrix, product);
  } else {
    Settle();
    const kernels::cuda::Sums sums = gpu_.products->Start(matrix, product);
    if (sums.ranges > 0) {
      from = sums.at;
      project.ranges = sums.ranges;
      project.range_stride = sums.stride;
    }
  }
  project.key = from;
  project.value = from + kv_width();
  if (product.outputs == 0) project.query = from + 2 * kv_width();
  kernels::cuda::Qkv(project, *gpu_.stream);
}

void CudaActivations::Qkv(const Rows& rows, const QkvArgs& args) {
  if (args.norm != nullptr) Normalize(rows, *args.norm, args.tap);
  const Memory& input = args.joined ? joined_ : normed_;
  kernels::cuda::QkvArgs project = KernelArgs(rows, args);
  project.stride = 2 * kv_width() + query_width();
  ProjectQkv(*args.qkv, {input.as<void>(), qkv_.as<float>(), rows.row_capacity}, project);
}

void CudaActivations::StoreKeysValues(const Rows& rows, const QkvArgs& args) {
  kernels::cuda::QkvArgs project = KernelArgs(rows, args);
  project.stride = 2 * kv_width();  // Keys and values are the first outputs.
  Products::Rows product = {normed_.as<void>(), qkv_.as<float>(), rows.row_capacity};
  product.outputs = project.stride;
  ProjectQkv(*args.qkv, product, project);
}

void CudaActivations::Attend(const Rows& rows, const AttendArgs& args) {
  kernels::cuda::AttentionArgs attend;
  attend.rows = rows;
  attend.query = query_.as<void>();
  attend.output = attention_.as<void>();
  attend.cache = args.cache;
  attend.query_heads = dims_.query_heads;
  attend.window = streaming_.on() ? streaming_.tokens : args.window;
  attend.sinks = streaming_.sinks;
  attend.sink_query = sink_query_.as<void>();
  attend.causal = args.causal;
  attend.scale = 1.0f / std::sqrt(static_cast<float>(dims_.head_dim));
  attend.scratch = scratch_.as<void>();
  attend.max_chunks = attention_chunks_;
  attend.multiprocessors = gpu_.info.multiprocessors;
  attend.capability = gpu_.info.capability;
  attend.reads_ahead = true;  // A recording that stores keys of cached tokens has no attention.
  kernels::cuda::Attention(attend, *gpu_.stream);
}

void CudaActivations::AddAttention(const Rows& rows, const Matrix& output,
                                   const Convolution* convolution) {
  Add(output, attention_.as<void>(), rows.row_capacity, convolution);
}

void CudaActivations::GateUp(const Rows& rows, const Norm* norm, const Matrix& gate_up,
                             hub::MlpKind kind) {
  if (norm != nullptr) Normalize(rows, *norm, {});
  const int count = rows.row_capacity, width = dims_.intermediate;
  Settle();
  if (kind == hub::MlpKind::kGatedSilu && gate_up.bias.as<float>() == nullptr &&
      gpu_.products->MultiplyGated(gate_up, normed_.as<void>(), activation_.as<void>(), count)) {
    return;
  }
  float* const inner = gate_up_.as<float>();
  Multiply(gate_up, {normed_.as<void>(), inner, count});
  switch (kind) {
    case hub::MlpKind::kGatedSilu:
      kernels::cuda::SiluMul({inner, activation_.as<void>(), type_, count, width}, *gpu_.stream);
      return;
    case hub::MlpKind::kGelu:
      kernels::cuda::Gelu({inner, activation_.as<void>(), type_, count, width}, *gpu_.stream);
      return;
  }
}

void CudaActivations::AddMlp(const Rows& rows, const Matrix& down, const Convolution* convolution) {
  Add(down, activation_.as<void>(), rows.row_capacity, convolution);
}

void CudaActivations::AddSilu(const Rows& rows, const Matrix& matrix) {
  const int count = rows.row_capacity;
  float* const inner = gate_up_.as<float>();
  Multiply(matrix, {normed_.as<void>(), inner, count});
  kernels::cuda::SiluAdd({inner, normed_.as<void>(), type_, count, dims_.hidden}, *gpu_.stream);
}

void CudaActivations::Head(const Matrix& head, const int32_t* wanted, int rows, Logits& logits) {
  const void* x = normed_.as<void>();
  if (wanted != nullptr) {
    kernels::cuda::GatherRows({x, wanted, wanted_.as<void>(), type_, rows, dims_.hidden},
                              *gpu_.stream);
    x = wanted_.as<void>();
  }
  Multiply(head, {x, logits.Reserve(rows), rows});
}

}  // namespace bastion::nn
