#include "engine/model/decoder_block.h"

#include <algorithm>
#include <cmath>

namespace bastion::nn {

namespace {

// y = x Wᵀ + bias, or y += x Wᵀ + bias, for the rows of the pass.
void Multiply(const BlockPass& pass, const Matrix& matrix, const float* x, float* y,
              bool accumulate) {
  pass.device.backend->linear({x, matrix.packed, y, pass.batch.rows(), matrix.packed.rows,
                               accumulate, matrix.bias.as<float>()},
                              *pass.device.pool);
}

}  // namespace

DecoderBlock::DecoderBlock(const BlockShape& shape, BlockWeights weights)
    : shape_(shape), weights_(std::move(weights)) {
  if (shape.rotary) return;
  no_rotation_.assign(shape.form.rope.dims, 0);
  std::fill_n(no_rotation_.begin(), shape.form.rope.dims / 2, 1.0f);
}

void DecoderBlock::Norm(const BlockPass& pass, const NormWeights& weights, const float* x,
                        float* y) const {
  const NormShape shape = {shape_.form.norm, shape_.dims.hidden,
                           static_cast<float>(shape_.form.norm_epsilon)};
  RunNorm(pass.device, shape, weights, {x, pass.batch.rows(), y});
}

kernels::QkvArgs DecoderBlock::QkvOf(const BlockPass& pass) const {
  kernels::QkvArgs args;
  args.query_norm = weights_.query_norm.as<float>();
  args.key_norm = weights_.key_norm.as<float>();
  args.cosine_sine = pass.rope.as<float>();
  args.positions = pass.batch.positions().data();
  args.slots = pass.batch.slots().data();
  args.cache = pass.cache;
  args.rows = pass.batch.rows();
  args.query_heads = shape_.dims.query_heads;
  args.epsilon = static_cast<float>(shape_.form.norm_epsilon);
  args.rotary_dims = shape_.form.rope.dims;
  if (!shape_.rotary) {
    // Every row rotates like position 0 of a table without scaling: not at all.
    pass.scratch.no_positions.assign(pass.batch.rows(), 0);
    args.positions = pass.scratch.no_positions.data();
    args.cosine_sine = no_rotation_.data();
  }
  return args;
}

const std::vector<kernels::AttentionSpan>& DecoderBlock::SpansOf(
    const RowBatch& batch, std::vector<kernels::AttentionSpan>& changed) const {
  if (!shape_.causal) return batch.spans();
  changed = batch.spans();
  for (kernels::AttentionSpan& span : changed) {
    if (span.mask == kernels::RowMask::kFull) span.mask = kernels::RowMask::kCausal;
  }
  return changed;
}

int DecoderBlock::Forward(const BlockPass& pass, float* x) const {
  float* normed = pass.scratch.normed.Reserve(pass.batch.rows(), shape_.dims.hidden);  // [R, C]
  Norm(pass, weights_.attention_norm, x, normed);
  const float* attention = Attend(pass, normed);
  // With a parallel residual, the MLP reads the rows before attention is added to them.
  const bool parallel = shape_.form.parallel_residual;
  if (!parallel) Multiply(pass, weights_.output, attention, x, /*accumulate=*/true);
  Norm(pass, weights_.mlp_norm, x, normed);
  if (parallel) Multiply(pass, weights_.output, attention, x, /*accumulate=*/true);
  if (shape_.experts) {
    return AddExperts(pass.device, shape_.form.experts, weights_, {normed, pass.batch.rows(), x},
                      pass.scratch.experts);
  }
  AddMlp(pass, normed, x);
  return 0;
}

const float* DecoderBlock::Attend(const BlockPass& pass, const float* normed) const {
  const RowBatch& batch = pass.batch;
  const ModelDims& dims = shape_.dims;
  const int query_width = dims.query_heads * dims.head_dim;
  const int kv_width = dims.kv_heads * dims.head_dim;
  const int kvq_width = 2 * kv_width + query_width;
  float* kvq = pass.scratch.kvq.Reserve(batch.rows(), kvq_width);                // [R, (2G+H) D]
  float* attention = pass.scratch.attention.Reserve(batch.rows(), query_width);  // [R, H D]

  Multiply(pass, weights_.kvq, normed, kvq, /*accumulate=*/false);
  kernels::QkvArgs project = QkvOf(pass);
  project.key = kvq;
  project.value = kvq + kv_width;
  project.query = kvq + 2 * kv_width;
  project.query_stride = project.kv_stride = kvq_width;
  if (shape_.streaming.on()) {
    StreamingQkv(pass.device, shape_.streaming, project, pass.scratch.streaming);
  } else {
    pass.device.backend->qkv(project, *pass.device.pool);
  }

  kernels::AttentionArgs attend;
  attend.query = project.query;
  attend.output = attention;
  attend.cache = pass.cache;
  const std::vector<kernels::AttentionSpan>& spans = SpansOf(batch, pass.scratch.spans);
  attend.spans = spans.data();
  attend.span_count = static_cast<int>(spans.size());
  attend.positions = batch.positions().data();
  attend.query_heads = dims.query_heads;
  attend.query_stride = kvq_width;
  attend.window = shape_.window;
  attend.scale = 1.0f / std::sqrt(static_cast<float>(dims.head_dim));
  if (shape_.streaming.on()) {
    StreamingAttention(pass.device, shape_.streaming, project, attend, pass.scratch.streaming);
  } else {
    pass.device.backend->attention(attend, *pass.device.pool);
  }
  return attention;
}

void DecoderBlock::AddMlp(const BlockPass& pass, const float* normed, float* x) const {
  const kernels::Backend& run = *pass.device.backend;
  const int rows = pass.batch.rows(), width = shape_.dims.intermediate;
  float* gate_up = pass.scratch.gate_up.Reserve(rows, weights_.gate_up.packed.rows);  // [R, N]
  float* activation = pass.scratch.activation.Reserve(rows, width);                   // [R, I]
  Multiply(pass, weights_.gate_up, normed, gate_up, /*accumulate=*/false);
  switch (shape_.form.mlp) {
    case hub::MlpKind::kGatedSilu:
      run.silu_mul({gate_up, activation, rows, width}, *pass.device.pool);
      break;
    case hub::MlpKind::kGelu:
      run.gelu({gate_up, activation, rows, width}, *pass.device.pool);
      break;
  }
  Multiply(pass, weights_.down, activation, x, /*accumulate=*/true);
}

void DecoderBlock::StoreContext(const BlockPass& pass, const float* context) const {
  const int rows = pass.batch.rows();
  const ModelDims& dims = shape_.dims;
  const int kv_width = dims.kv_heads * dims.head_dim;
  float* kv = pass.scratch.kvq.Reserve(rows, int64_t{2} * kv_width);  // [R, 2 G D]
  const kernels::PackedMatrix keys_values = weights_.kvq.FirstRows(2 * kv_width);
  pass.device.backend->linear(
      {context, keys_values, kv, rows, 2 * kv_width, false, weights_.kvq.bias.as<float>()},
      *pass.device.pool);
  kernels::QkvArgs project = QkvOf(pass);
  project.key = kv;
  project.value = kv + kv_width;
  project.kv_stride = 2 * kv_width;
  pass.device.backend->qkv(project, *pass.device.pool);
}

void DecoderBlock::AddCost(ForwardCost& cost) const {
  for (const Matrix* matrix :
       {&weights_.router, &weights_.kvq, &weights_.output, &weights_.gate_up, &weights_.down}) {
    if (matrix->packed.rows > 0) cost.Add(matrix->packed);
  }
  if (!shape_.experts) return;
  cost.experts = shape_.form.experts.count;
  cost.chosen_experts = shape_.form.experts.chosen;
  int64_t bytes = 0, multiply_adds = 0;
  for (const auto* matrices : {&weights_.expert_gate_up, &weights_.expert_down}) {
    for (const Matrix& matrix : *matrices) {
      bytes += static_cast<int64_t>(matrix.packed.bytes());
      multiply_adds += int64_t{matrix.packed.rows} * matrix.packed.columns;
    }
  }
  cost.AddExperts(bytes, multiply_adds);
}

}  // namespace bastion::nn
