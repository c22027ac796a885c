#include "engine/host/host_activations.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bastion::nn {

void HostActivations::Embed(const kernels::Rows& rows, const void* table, DType type) {
  x_ = residual_.Reserve(rows.row_capacity, dims_.hidden);
  touched_experts_ = expert_layers_ = 0;
  host_.backend->embed({rows.tokens, table, type, x_, rows.row_capacity, dims_.hidden},
                       *host_.pool);
}

void HostActivations::Scale(const kernels::Rows& rows, float factor) {
  host_.backend->scale({x_, rows.row_capacity, dims_.hidden, factor}, *host_.pool);
}

void HostActivations::Project(const kernels::Rows& rows, const Matrix& matrix, const void* input) {
  x_ = residual_.Reserve(rows.row_capacity, dims_.hidden);
  Multiply(matrix, static_cast<const float*>(input), x_, rows.row_capacity, /*accumulate=*/false);
}

void HostActivations::Multiply(const Matrix& matrix, const float* x, float* y, int rows,
                               bool accumulate) const {
  kernels::LinearArgs args;
  args.x = x;
  args.weight = {matrix.format, matrix.rows, matrix.columns, matrix.data()};
  args.y = y;
  args.rows = rows;
  args.y_stride = matrix.rows;
  args.accumulate = accumulate;
  args.bias = matrix.bias.as<float>();
  host_.backend->linear(args, *host_.pool);
}

void HostActivations::Store(const Tap& tap, int rows) const {
  if (tap.to == nullptr) return;
  const size_t row_bytes = Bytes(tap.type, tap.stride);
  for (int64_t row = 0; row < rows; ++row) {
    kernels::ConvertElements(DType::kF32, x_ + row * dims_.hidden, dims_.hidden, tap.type,
                             static_cast<char*>(tap.to) + row * row_bytes);
  }
}

void HostActivations::Normalize(const kernels::Rows& rows, const Norm& norm, const Tap& tap) {
  const int count = rows.row_capacity;
  Store(tap, count);
  float* const y = normed_.Reserve(count, norm.width);
  const float* const weight = norm.weight.as<float>();
  switch (norm.kind) {
    case hub::NormKind::kRms:
      host_.backend->rms_norm({x_, weight, y, count, norm.width, norm.epsilon}, *host_.pool);
      return;
    case hub::NormKind::kLayer:
      host_.backend->layer_norm(
          {x_, weight, norm.bias.as<float>(), y, count, norm.width, norm.epsilon}, *host_.pool);
      return;
  }
}

void HostActivations::Keep(const kernels::Rows& rows, int part) {
  const int count = rows.row_capacity, width = dims_.hidden, joined_width = join_.parts * width;
  const float* const normed = normed_.Reserve(count, width);
  float* const joined = joined_.Reserve(count, joined_width);
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(normed + row * width, width, joined + row * joined_width + part * width);
  }
}

void HostActivations::Restart(const kernels::Rows& rows) {
  const int count = rows.row_capacity;
  std::copy_n(normed_.Reserve(count, dims_.hidden), int64_t{count} * dims_.hidden, x_);
}

void HostActivations::ProjectJoined(const kernels::Rows& rows, const Matrix& matrix) {
  Project(rows, matrix, joined_.Reserve(rows.row_capacity, join_.parts * dims_.hidden));
}

void HostActivations::Shift(const kernels::Rows& rows, const Matrix& matrix, const Norm& /*norm*/) {
  const int count = rows.row_capacity, width = dims_.hidden;
  float* const pairs = shifted_.Reserve(count, 2 * width);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t before = row % join_.shift_rows == 0 ? row : row - 1;
    std::copy_n(x_ + row * width, width, pairs + row * 2 * width);
    std::copy_n(x_ + before * width, width, pairs + row * 2 * width + width);
  }
  Multiply(matrix, pairs, x_, count, /*accumulate=*/false);
}

void HostActivations::Convolve(const Convolution& convolution, int side, const float* x, float* y,
                               int rows) {
  const int taps = convolution_.taps, width = dims_.hidden, groups = width / convolution_.group;
  kernels::ConvolveArgs args;
  args.x = x;
  args.base = convolution.base.as<float>() + int64_t{side} * taps * width;
  args.stride = convolution.projection.rows;
  args.coefficients = coefficients_.Reserve(rows, args.stride) + int64_t{side} * taps * groups;
  args.y = y;
  args.rows = rows;
  args.width = width;
  args.taps = taps;
  args.group = convolution_.group;
  args.block_rows = convolution_.block_rows;
  args.accumulate = side == 1;
  host_.backend->convolve(args, *host_.pool);
}

void HostActivations::ConvolveInput(const kernels::Rows& rows, const Norm& norm, const Tap& tap,
                                    const Convolution& convolution) {
  Normalize(rows, norm, tap);
  const int count = rows.row_capacity;
  std::swap(normed_, convolved_);
  const float* const plain = convolved_.Reserve(count, norm.width);
  Multiply(convolution.projection, plain, coefficients_.Reserve(count, convolution.projection.rows),
           count, /*accumulate=*/false);
  Convolve(convolution, 0, plain, normed_.Reserve(count, norm.width), count);
}

void HostActivations::Add(const Matrix& matrix, const float* input, int rows,
                          const Convolution* convolution) {
  if (convolution == nullptr) return Multiply(matrix, input, x_, rows, /*accumulate=*/true);
  float* const output = convolved_.Reserve(rows, dims_.hidden);
  Multiply(matrix, input, output, rows, /*accumulate=*/false);
  Convolve(*convolution, 1, output, x_, rows);
}

kernels::QkvArgs HostActivations::KernelArgs(const kernels::Rows& rows, const QkvArgs& args) const {
  kernels::QkvArgs project;
  project.query_norm = args.query_norm->as<float>();
  project.key_norm = args.key_norm->as<float>();
  project.cosine_sine = args.rotary;
  project.positions = rows.positions;
  project.slots = rows.slots;
  project.cache = args.cache;
  project.rows = rows.row_capacity;
  project.query_heads = dims_.query_heads;
  project.epsilon = args.epsilon;
  project.rotary_dims = args.rotary_dims;
  return project;
}

void HostActivations::Qkv(const kernels::Rows& rows, const QkvArgs& args) {
  if (args.norm != nullptr) Normalize(rows, *args.norm, args.tap);
  const int count = rows.row_capacity, width = 2 * kv_width() + query_width();
  float* const qkv = qkv_.Reserve(count, width);  // [R, (2G + H) D]
  const int inputs = args.qkv->columns;
  const float* const normed = (args.joined ? joined_ : normed_).Reserve(count, inputs);
  Multiply(*args.qkv, normed, qkv, count, /*accumulate=*/false);
  kernels::QkvArgs project = KernelArgs(rows, args);
  project.key = qkv;
  project.value = qkv + kv_width();
  project.query = qkv + 2 * kv_width();
  project.query_stride = project.kv_stride = width;
  if (streaming_.on()) {
    StreamingQkv(host_, streaming_, project, sinks_);
  } else {
    host_.backend->qkv(project, *host_.pool);
  }
}

void HostActivations::StoreKeysValues(const kernels::Rows& rows, const QkvArgs& args) {
  const int count = rows.row_capacity, width = 2 * kv_width();
  float* const kv = qkv_.Reserve(count, width);  // [R, 2 G D]
  Matrix keys_values = *args.qkv;
  keys_values.rows = width;  // The first rows of the matrix.
  Multiply(keys_values, normed_.Reserve(count, dims_.hidden), kv, count, /*accumulate=*/false);
  kernels::QkvArgs project = KernelArgs(rows, args);
  project.key = kv;
  project.value = kv + kv_width();
  project.kv_stride = width;
  host_.backend->qkv(project, *host_.pool);
}

void HostActivations::Attend(const kernels::Rows& rows, const AttendArgs& args) {
  const int count = rows.row_capacity;
  spans_.clear();
  for (int b = 0; b < rows.used[1]; ++b) {
    spans_.push_back(kernels::SpanOf(rows, b));
    if (args.causal && spans_.back().mask == kernels::RowMask::kFull) {
      spans_.back().mask = kernels::RowMask::kCausal;
    }
  }
  kernels::AttentionArgs attend;
  attend.query_stride = 2 * kv_width() + query_width();
  attend.query = qkv_.Reserve(count, attend.query_stride) + 2 * kv_width();
  attend.output = attention_.Reserve(count, query_width());  // [R, H D]
  attend.cache = args.cache;
  attend.spans = spans_.data();
  attend.span_count = static_cast<int>(spans_.size());
  attend.positions = rows.positions;
  attend.query_heads = dims_.query_heads;
  attend.window = args.window;
  attend.scale = 1.0f / std::sqrt(static_cast<float>(dims_.head_dim));
  if (!streaming_.on()) {
    host_.backend->attention(attend, *host_.pool);
    return;
  }
  kernels::QkvArgs rotate;
  rotate.cosine_sine = args.rotary;
  rotate.rotary_dims = args.rotary_dims;
  StreamingAttention(host_, streaming_, rotate, attend, sinks_);
}

void HostActivations::AddAttention(const kernels::Rows& rows, const Matrix& output,
                                   const Convolution* convolution) {
  const int count = rows.row_capacity;
  Add(output, attention_.Reserve(count, query_width()), count, convolution);
}

void HostActivations::GateUp(const kernels::Rows& rows, const Norm* norm, const Matrix& gate_up,
                             hub::MlpKind kind) {
  if (norm != nullptr) Normalize(rows, *norm, {});
  const int count = rows.row_capacity, width = dims_.intermediate;
  float* const inner = gate_up_.Reserve(count, gate_up.rows);   // [R, N]
  float* const activation = activation_.Reserve(count, width);  // [R, I]
  Multiply(gate_up, normed_.Reserve(count, dims_.hidden), inner, count, /*accumulate=*/false);
  switch (kind) {
    case hub::MlpKind::kGatedSilu:
      host_.backend->silu_mul({inner, activation, count, width}, *host_.pool);
      return;
    case hub::MlpKind::kGelu:
      host_.backend->gelu({inner, activation, count, width}, *host_.pool);
      return;
  }
}

void HostActivations::AddMlp(const kernels::Rows& rows, const Matrix& down,
                             const Convolution* convolution) {
  const int count = rows.row_capacity;
  Add(down, activation_.Reserve(count, dims_.intermediate), count, convolution);
}

void HostActivations::AddExperts(const kernels::Rows& rows, const ExpertArgs& args) {
  Normalize(rows, *args.norm, {});
  const int count = rows.row_capacity;
  const float* const normed = normed_.Reserve(count, dims_.hidden);
  float* const logits = experts_.logits.Reserve(count, args.config->count);  // [R, E]
  Multiply(*args.router, normed, logits, count, /*accumulate=*/false);
  touched_experts_ += RunExperts(host_, args, {normed, logits, count, x_}, experts_);
  ++expert_layers_;
}

void HostActivations::AddSilu(const kernels::Rows& rows, const Matrix& matrix) {
  const int count = rows.row_capacity, width = dims_.hidden;
  float* const normed = normed_.Reserve(count, width);
  float* const inner = gate_up_.Reserve(count, width);
  Multiply(matrix, normed, inner, count, /*accumulate=*/false);
  for (int64_t i = 0; i < int64_t{count} * width; ++i) {
    normed[i] += inner[i] / (1 + std::exp(-inner[i]));
  }
}

void HostActivations::Head(const Matrix& head, const int32_t* wanted, int rows, Logits& logits) {
  const int width = head.columns;
  const float* x = normed_.Reserve(rows, width);
  if (wanted != nullptr) {
    float* const gathered = wanted_.Reserve(rows, width);
    for (int i = 0; i < rows; ++i) {
      std::copy_n(x + int64_t{wanted[i]} * width, width, gathered + int64_t{i} * width);
    }
    x = gathered;
  }
  Multiply(head, x, logits.Reserve(rows), rows, /*accumulate=*/false);
}

}  // namespace bastion::nn
