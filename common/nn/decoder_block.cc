#include "common/nn/decoder_block.h"

#include <cmath>

namespace bastion::nn {

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
  args.epsilon = shape_.norm_epsilon;
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

void DecoderBlock::Forward(const BlockPass& pass, float* x) const {
  const kernels::Backend& run = *pass.device.backend;
  kernels::ThreadPool& pool = *pass.device.pool;
  const RowBatch& batch = pass.batch;
  BlockScratch& scratch = pass.scratch;
  const ModelDims& dims = shape_.dims;
  const int rows = batch.rows();
  const int query_width = dims.query_heads * dims.head_dim;
  const int kv_width = dims.kv_heads * dims.head_dim;
  const int kvq_width = 2 * kv_width + query_width;

  float* normed = scratch.normed.Reserve(rows, dims.hidden);                       // [R, C]
  float* kvq = scratch.kvq.Reserve(rows, kvq_width);                               // [R, (2G+H) D]
  float* attention = scratch.attention.Reserve(rows, query_width);                 // [R, H D]
  float* gate_up = scratch.gate_up.Reserve(rows, int64_t{2} * dims.intermediate);  // [R, 2 I]
  float* activation = scratch.activation.Reserve(rows, dims.intermediate);         // [R, I]

  run.rms_norm(
      {x, weights_.attention_norm.as<float>(), normed, rows, dims.hidden, shape_.norm_epsilon},
      pool);
  run.linear({normed, weights_.kvq.packed, kvq, rows, kvq_width, false}, pool);
  kernels::QkvArgs project = QkvOf(pass);
  project.key = kvq;
  project.value = kvq + kv_width;
  project.query = kvq + 2 * kv_width;
  project.query_stride = project.kv_stride = kvq_width;
  run.qkv(project, pool);

  kernels::AttentionArgs attend;
  attend.query = project.query;
  attend.output = attention;
  attend.cache = pass.cache;
  const std::vector<kernels::AttentionSpan>& spans = SpansOf(batch, scratch.spans);
  attend.spans = spans.data();
  attend.span_count = static_cast<int>(spans.size());
  attend.positions = batch.positions().data();
  attend.query_heads = dims.query_heads;
  attend.query_stride = kvq_width;
  attend.window = shape_.window;
  attend.scale = 1.0f / std::sqrt(static_cast<float>(dims.head_dim));
  run.attention(attend, pool);
  run.linear({attention, weights_.output.packed, x, rows, dims.hidden, true}, pool);

  run.rms_norm({x, weights_.mlp_norm.as<float>(), normed, rows, dims.hidden, shape_.norm_epsilon},
               pool);
  run.linear({normed, weights_.gate_up.packed, gate_up, rows, 2 * dims.intermediate, false}, pool);
  run.silu_mul({gate_up, activation, rows, dims.intermediate}, pool);
  run.linear({activation, weights_.down.packed, x, rows, dims.hidden, true}, pool);
}

void DecoderBlock::StoreContext(const BlockPass& pass, const float* context) const {
  const int rows = pass.batch.rows();
  const ModelDims& dims = shape_.dims;
  const int kv_width = dims.kv_heads * dims.head_dim;
  float* kv = pass.scratch.kvq.Reserve(rows, int64_t{2} * kv_width);  // [R, 2 G D]
  const kernels::PackedMatrix keys_values = weights_.kvq.FirstRows(2 * kv_width);
  pass.device.backend->linear({context, keys_values, kv, rows, 2 * kv_width, false},
                              *pass.device.pool);
  kernels::QkvArgs project = QkvOf(pass);
  project.key = kv;
  project.value = kv + kv_width;
  project.kv_stride = 2 * kv_width;
  pass.device.backend->qkv(project, *pass.device.pool);
}

void DecoderBlock::AddCost(ForwardCost& cost) const {
  for (const Matrix* matrix :
       {&weights_.kvq, &weights_.output, &weights_.gate_up, &weights_.down}) {
    cost.Add(matrix->packed);
  }
}

}  // namespace bastion::nn
