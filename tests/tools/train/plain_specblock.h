// A second implementation of SpecBlock's forward for tests: it caches nothing, and shares no code
// with the trainer. Header-only. Thread-compatible.
#ifndef BASTION_TESTS_TOOLS_TRAIN_PLAIN_SPECBLOCK_H_
#define BASTION_TESTS_TOOLS_TRAIN_PLAIN_SPECBLOCK_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/stages/features.h"
#include "tools/train/models/specblock.h"

namespace bastion::train {

// A block without caches. `seen` has the rows that it sees of each block before it.
struct Block {
  at::Tensor token, condition;  // [], [C]
  int64_t position = 0;
  std::vector<int64_t> seen = {};
};

// SpecBlock without caches: every block is one forward over a whole text, as in
// tests/parity/specblock_goldens.py.
class PlainSpecBlock {
 public:
  PlainSpecBlock(const TrainableSpecBlock& drafter, const FrozenTarget& target,
                 const hub::ModelConfig& config)
      : drafter_(drafter), target_(target), config_(config) {}

  // The states [K, C] of the blocks after `anchor`. tokens [T], features [T, F].
  [[nodiscard]] std::vector<at::Tensor> Blocks(const at::Tensor& tokens, const at::Tensor& features,
                                               int64_t anchor,
                                               const std::vector<int64_t>& starts) const {
    std::vector<Block> blocks;
    for (int64_t t = 1; t <= anchor; ++t) {
      blocks.push_back({tokens[t],
                        at::linear(features[t - 1], Weight("input_layer.condition_proj")), t,
                        std::vector<int64_t>(t - 1, places())});
    }
    std::vector<at::Tensor> states = {States(blocks)};
    std::vector<int64_t> seen = blocks.back().seen;
    int64_t depth = 0;
    for (const int64_t start : starts) {
      depth += start;
      seen.push_back(start);
      blocks.push_back({tokens[anchor + depth], states.back()[start - 1],
                        anchor + (config_.drafter.specblock.path_positions ? depth : 0), seen});
      states.push_back(States(blocks));
    }
    return states;
  }

 private:
  [[nodiscard]] int64_t places() const { return config_.drafter.specblock.positions; }
  [[nodiscard]] at::Tensor Weight(const std::string& name) const {
    for (const Parameter& parameter : drafter_.parameters().all()) {
      if (parameter.name == name + ".weight") return parameter.value;
    }
    ADD_FAILURE() << name;
    return {};
  }
  [[nodiscard]] at::Tensor Norm(const at::Tensor& x, const std::string& name) const {
    return x * at::rsqrt(x.pow(2).mean(-1, true) + config_.blocks.norm_epsilon) * Weight(name);
  }
  // [K, C]
  [[nodiscard]] at::Tensor Inputs(const Block& block) const {
    const at::Tensor queries =
        Norm(Weight("input_layer.position_queries"), "input_layer.query_norm");
    const at::Tensor condition = Norm(block.condition, "input_layer.condition_norm");
    const at::Tensor token =
        Norm(at::embedding(target_.embedding, block.token), "input_layer.token_norm");
    at::Tensor shared = at::cat({condition, token}).expand({places(), -1});
    if (!config_.drafter.specblock.prefix_broadcast) {
      shared = at::cat({shared.narrow(0, 0, 1), at::zeros_like(shared.narrow(0, 1, places() - 1))});
    }
    return at::linear(at::cat({shared, queries}, 1), Weight("input_layer.fuse"));
  }
  // [heads, rows, D]
  [[nodiscard]] at::Tensor Heads(const at::Tensor& x, const std::string& name,
                                 const at::Tensor& positions) const {
    const int64_t dims = config_.dims.head_dim, pairs = dims / 2;
    const at::Tensor heads = at::linear(x, Weight(name)).unflatten(-1, {-1, dims}).transpose(0, 1);
    if (!positions.defined()) return heads;
    const at::Tensor rates =
        at::pow(config_.blocks.rope.theta, -at::arange(pairs, at::kFloat) / pairs);
    const at::Tensor angles = positions.to(at::kFloat).unsqueeze(-1) * rates;
    const at::Tensor a = heads.narrow(-1, 0, pairs), b = heads.narrow(-1, pairs, pairs);
    return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, -1);
  }
  [[nodiscard]] at::Tensor Layer(const at::Tensor& x, const std::string& prefix,
                                 const at::Tensor& positions, const at::Tensor& sees) const {
    const at::Tensor normed = Norm(x, prefix + "input_layernorm");
    const at::Tensor q = Heads(normed, prefix + "self_attn.q_proj", positions);
    const int64_t group = q.size(0) / config_.dims.kv_heads;
    const at::Tensor k =
        Heads(normed, prefix + "self_attn.k_proj", positions).repeat_interleave(group, 0);
    const at::Tensor v = Heads(normed, prefix + "self_attn.v_proj", {}).repeat_interleave(group, 0);
    const at::Tensor scores = (at::matmul(q, k.transpose(1, 2)) / std::sqrt(q.size(2)))
                                  .masked_fill(sees.logical_not(), -INFINITY);
    const at::Tensor attended = at::matmul(scores.softmax(-1), v).transpose(0, 1).flatten(1);
    const at::Tensor sum = x + at::linear(attended, Weight(prefix + "self_attn.o_proj"));
    const at::Tensor mlp = Norm(sum, prefix + "post_attention_layernorm");
    return sum + at::linear(at::silu(at::linear(mlp, Weight(prefix + "mlp.gate_proj"))) *
                                at::linear(mlp, Weight(prefix + "mlp.up_proj")),
                            Weight(prefix + "mlp.down_proj"));
  }
  // [K, C] The states of the last block.
  [[nodiscard]] at::Tensor States(const std::vector<Block>& blocks) const {
    const auto count = static_cast<int64_t>(blocks.size());
    std::vector<at::Tensor> inputs, positions;
    const at::Tensor sees = at::zeros({count, places(), count, places()}, at::kBool);
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      inputs.push_back(Inputs(block));
      positions.push_back(at::arange(block.position, block.position + places(), at::kLong));
      for (size_t before = 0; before < block.seen.size(); ++before) {
        sees[b]
            .select(1, static_cast<int64_t>(before))
            .narrow(1, 0, block.seen[before])
            .fill_(true);
      }
      sees[b].select(1, b).copy_(at::ones({places(), places()}, at::kBool).tril());
    }
    at::Tensor x = at::stack(inputs);
    for (int layer = 0; layer < config_.dims.layers; ++layer) {
      if (layer > 0) {
        const at::Tensor before = at::cat({x.narrow(1, 0, 1), x.narrow(1, 0, places() - 1)}, 1);
        x = at::linear(at::cat({x, before}, -1), Weight("shift_proj." + std::to_string(layer - 1)));
      }
      x = Layer(x.flatten(0, 1), "layers." + std::to_string(layer) + ".", at::cat(positions),
                sees.view({count * places(), count * places()}))
              .view_as(x);
    }
    return x[-1];
  }

  const TrainableSpecBlock& drafter_;
  const FrozenTarget& target_;
  const hub::ModelConfig& config_;
};

}  // namespace bastion::train

#endif  // BASTION_TESTS_TOOLS_TRAIN_PLAIN_SPECBLOCK_H_
