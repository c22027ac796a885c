#include "tools/train/models/layers.h"

#include "engine/model/rotary.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

// Rotates the first d elements of each head of x [B, T, heads, D].
at::Tensor Rotate(const at::Tensor& x, const Rotation& rotation) {
  const int64_t half = rotation.cosines.size(-1);
  const at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  const at::Tensor left = first * rotation.cosines - second * rotation.sines;
  const at::Tensor right = second * rotation.cosines + first * rotation.sines;
  if (2 * half == x.size(-1)) return at::cat({left, right}, -1);
  return at::cat({left, right, x.narrow(-1, 2 * half, x.size(-1) - 2 * half)}, -1);
}

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

Rotary::Rotary(const hub::RopeConfig& rope, int limit)
    : table_(at::empty({limit, rope.dims}, at::kFloat)) {
  kernels::ThreadPool pool(1);
  hub::ModelConfig config;
  config.blocks.rope = rope;
  config.max_positions = limit;
  nn::FillRotaryTable(config, pool, table_.data_ptr<float>());
}

Rotation Rotary::At(const at::Tensor& positions) const {
  const std::vector<at::Tensor> halves = table_.index({positions}).unsqueeze(-2).chunk(2, -1);
  return {halves[0], halves[1]};
}

KeysValues KeysValues::Then(const KeysValues& later) const {
  return {at::cat({keys, later.keys}, 2), at::cat({values, later.values}, 2)};
}

DecoderLayer::DecoderLayer(Parameters& parameters, const std::string& prefix,
                           const hub::ModelConfig& config)
    : epsilon_(config.blocks.norm_epsilon),
      head_dim_(config.dims.head_dim),
      group_(config.dims.query_heads / config.dims.kv_heads) {
  const ModelDims& dims = config.dims;
  const int64_t hidden = dims.hidden, inner = dims.intermediate;
  const int64_t query_width = head_dim_ * dims.query_heads, kv_width = head_dim_ * dims.kv_heads;
  const hub::TensorNames names;
  const auto map = [&](const std::string& name, int64_t rows, int64_t columns) {
    return parameters.AddMap(prefix + name + ".weight", rows, columns);
  };
  const auto zeros = [&](const std::string& name, int64_t rows, int64_t columns) {
    return parameters.AddZeroMap(prefix + name + ".weight", rows, columns);
  };
  const auto norm = [&](const std::string& name, int64_t width) {
    return parameters.AddOnes(prefix + name + ".weight", width);
  };
  const hub::JoinConfig& join = config.blocks.join;
  const int64_t read = join.feeds_qkv ? join.parts * hidden : hidden;
  query_ = map(names.query, query_width, read);
  key_ = map(names.key, kv_width, read);
  value_ = map(names.value, kv_width, read);
  output_ = zeros(names.output, hidden, query_width);
  if (config.blocks.query_key_norm) {
    query_norm_ = norm(names.query_norm, head_dim_);
    key_norm_ = norm(names.key_norm, head_dim_);
  }
  gate_ = map(names.gate, inner, hidden);
  up_ = map(names.up, inner, hidden);
  down_ = zeros(names.down, hidden, inner);
  input_norm_ = norm(names.attention_norm, hidden);
  mlp_norm_ = norm(names.mlp_norm, hidden);
  attention_mix_ = BlockConvolution(parameters, prefix + "attention_conv.", config);
  mlp_mix_ = BlockConvolution(parameters, prefix + "mlp_conv.", config);
}

// [B, T, C] -> [B, T, heads, D]
at::Tensor DecoderLayer::Heads(const at::Tensor& x, const at::Tensor& weight) const {
  return Product(x, weight).unflatten(-1, {-1, head_dim_});
}

at::Tensor DecoderLayer::HeadNorm(const at::Tensor& x, const at::Tensor& weight) const {
  return weight.defined() ? RmsNorm(x, weight, epsilon_) : x;
}

at::Tensor DecoderLayer::InputNorm(const at::Tensor& x) const {
  return RmsNorm(x, input_norm_, epsilon_);
}

KeysValues DecoderLayer::Project(const at::Tensor& normed, const Rotation& rotation) const {
  const at::Tensor keys = Rotate(HeadNorm(Heads(normed, key_), key_norm_), rotation);
  return {keys.transpose(1, 2), Heads(normed, value_).transpose(1, 2)};
}

at::Tensor DecoderLayer::Queries(const at::Tensor& normed, const Rotation& rotation) const {
  return Rotate(HeadNorm(Heads(normed, query_), query_norm_), rotation).transpose(1, 2);
}

at::Tensor DecoderLayer::Forward(const at::Tensor& x, const at::Tensor& normed,
                                 const Rotation& rotation, const KeysValues& visible,
                                 const std::optional<at::Tensor>& mask) const {
  const auto all_heads = [&](const at::Tensor& rows) {
    return rows.to(ProductType()).repeat_interleave(group_, 1);
  };
  const at::Tensor attended = at::scaled_dot_product_attention(
      Queries(normed, rotation).to(ProductType()), all_heads(visible.keys),
      all_heads(visible.values), mask, /*dropout_p=*/0, /*is_causal=*/!mask.has_value());
  return Finish(x, attended.to(at::kFloat));
}

at::Tensor DecoderLayer::Finish(const at::Tensor& x, const at::Tensor& attended) const {
  at::Tensor added = Product(attended.transpose(1, 2).flatten(-2), output_);
  if (!attention_mix_.empty()) added = attention_mix_.After(InputNorm(x), added);
  const at::Tensor summed = x + added;
  const at::Tensor normed = RmsNorm(summed, mlp_norm_, epsilon_);
  const at::Tensor mlp_input = mlp_mix_.Before(normed);
  const at::Tensor inner = at::silu(Product(mlp_input, gate_)) * Product(mlp_input, up_);
  return summed + mlp_mix_.After(normed, Product(inner, down_));
}

}  // namespace bastion::train
