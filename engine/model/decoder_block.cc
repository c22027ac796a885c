#include "engine/model/decoder_block.h"

namespace bastion::nn {

QkvArgs DecoderBlock::QkvOf(const BlockPass& pass) const {
  QkvArgs args;
  args.qkv = &weights_.qkv;
  args.query_norm = &weights_.query_norm;
  args.key_norm = &weights_.key_norm;
  args.epsilon = static_cast<float>(shape_.form.norm_epsilon);
  args.rotary = pass.rotary;
  args.rotary_dims = shape_.form.rope.dims;
  args.cache = pass.cache;
  return args;
}

AttendArgs DecoderBlock::AttendOf(const BlockPass& pass) const {
  return {pass.cache, pass.rotary, shape_.form.rope.dims, shape_.window, shape_.causal};
}

void DecoderBlock::Forward(const BlockPass& pass) const {
  Activations& x = pass.activations;
  QkvArgs project = QkvOf(pass);
  if (shape_.form.convolution.taps > 0) return ForwardConvolved(pass);
  if (!weights_.shift.empty()) x.Shift(pass.rows, weights_.shift, weights_.attention_norm);
  project.joined = shape_.form.join.feeds_qkv && shape_.layer == 0;
  if (!project.joined) project.norm = &weights_.attention_norm;
  project.tap = pass.tap;
  x.Qkv(pass.rotated, project);
  x.Attend(pass.rows, AttendOf(pass));
  if (shape_.experts) {
    x.AddAttention(pass.rows, weights_.output, nullptr);
    x.AddExperts(pass.rows, {&weights_.mlp_norm, &weights_.router, &weights_.expert_gate_up,
                             &weights_.expert_down, &shape_.form.experts, shape_.layer});
    return;
  }
  // With a parallel residual, the MLP reads the rows before attention is added to them.
  if (!shape_.form.parallel_residual) x.AddAttention(pass.rows, weights_.output, nullptr);
  x.GateUp(pass.rows, &weights_.mlp_norm, weights_.gate_up, shape_.form.mlp);
  if (shape_.form.parallel_residual) x.AddAttention(pass.rows, weights_.output, nullptr);
  x.AddMlp(pass.rows, weights_.down, nullptr);
}

void DecoderBlock::ForwardConvolved(const BlockPass& pass) const {
  Activations& x = pass.activations;
  const Convolution &attention = weights_.attention_convolution, &mlp = weights_.mlp_convolution;
  x.ConvolveInput(pass.rows, weights_.attention_norm, pass.tap, attention);
  x.Qkv(pass.rotated, QkvOf(pass));
  x.Attend(pass.rows, AttendOf(pass));
  x.AddAttention(pass.rows, weights_.output, &attention);
  x.ConvolveInput(pass.rows, weights_.mlp_norm, {}, mlp);
  x.GateUp(pass.rows, nullptr, weights_.gate_up, shape_.form.mlp);
  x.AddMlp(pass.rows, weights_.down, &mlp);
}

void DecoderBlock::StoreContext(const BlockPass& pass) const {
  pass.activations.StoreKeysValues(pass.rotated, QkvOf(pass));
}

void DecoderBlock::AddCost(ForwardCost& cost) const {
  for (const Matrix* matrix : {&weights_.router, &weights_.attention_convolution.projection,
                               &weights_.mlp_convolution.projection, &weights_.shift, &weights_.qkv,
                               &weights_.output, &weights_.gate_up, &weights_.down}) {
    cost.Add(*matrix);
  }
  if (!shape_.experts) return;
  cost.experts = shape_.form.experts.count;
  cost.chosen_experts = shape_.form.experts.chosen;
  cost.AddExperts(weights_.expert_gate_up);
  cost.AddExperts(weights_.expert_down);
}

}  // namespace bastion::nn
