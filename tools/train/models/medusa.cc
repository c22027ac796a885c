#include "tools/train/models/medusa.h"

#include <cmath>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/head_loss.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kAnchors = 32;  // Roots per text and step.
constexpr int kDefaultHeads = 4;
constexpr int kMaxHeads = 64;
constexpr int kDefaultBlocks = 1;
constexpr double kDecay = 0.8;

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableMedusa>> TrainableMedusa::Create(const FrozenTarget& target,
                                                                         const DrafterShape& shape,
                                                                         uint64_t seed) {
  const int heads = shape.positions > 0 ? shape.positions : kDefaultHeads;
  if (heads > kMaxHeads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--positions is ", heads, "; it must be from 1 to ", kMaxHeads));
  }
  const int blocks = shape.layers > 0 ? shape.layers : kDefaultBlocks;
  return std::unique_ptr<TrainableMedusa>(new TrainableMedusa(target, heads, blocks, seed));
}

TrainableMedusa::TrainableMedusa(const FrozenTarget& target, int heads, int blocks, uint64_t seed)
    : target_(target), feature_layers_({target.config.dims.layers - 1}), parameters_(seed) {
  const int64_t hidden = target.config.dims.hidden;
  for (int i = 0; i < heads; ++i) {
    const std::string prefix = absl::StrCat("medusa_head.", i, ".");
    Head& head = heads_.emplace_back();
    for (int j = 0; j < blocks; ++j) {
      const std::string name = absl::StrCat(prefix, j, ".linear.");
      head.blocks.push_back({parameters_.AddZeroMap(name + "weight", hidden, hidden),
                             parameters_.AddValues(name + "bias", at::zeros({hidden}))});
    }
    head.matrix = parameters_.AddValues(absl::StrCat(prefix, blocks, ".weight"), target.head);
  }
}

at::Tensor TrainableMedusa::Forward(int head, const at::Tensor& states) const {
  at::Tensor x = states;
  for (const Block& block : heads_[head].blocks) {
    x = x + at::silu(Product(x, block.weight) + block.bias);
  }
  return x;
}

StepLoss TrainableMedusa::AddGradients(const TextBatch& batch, Draws& draws) {
  const auto count = static_cast<int>(heads_.size());
  const at::Tensor anchors = DrawAnchors(batch, kAnchors, count, draws);  // [B, A]
  const at::Tensor text = at::arange(anchors.size(0), at::kLong).unsqueeze(-1);
  const auto head_input = [&](int offset) {
    return batch.head_input.index({text, anchors + offset}).flatten(0, 1);
  };
  const at::Tensor states = head_input(-1);
  const double total = (1 - std::pow(kDecay, count)) / (1 - kDecay);
  StepLoss step;
  for (int i = 0; i < count; ++i) {
    const double weight = std::pow(kDecay, i) / total;
    const HeadLoss loss = AddHeadGradients(
        {.rows = Forward(i, states),
         .teacher = head_input(i),
         .labels = batch.tokens.index({text, anchors + i + 1}).flatten(),
         .weights = at::full({states.size(0)}, weight / static_cast<double>(states.size(0))),
         .head = target_.head,
         .own_head = heads_[i].matrix});
    step.loss += weight * loss.losses.mean().item<double>();
    step.labels += loss.losses.numel();
    step.hits.push_back(loss.hits.to(at::kDouble).mean().item<double>());
  }
  return step;
}

nlohmann::json TrainableMedusa::Config() const {
  const std::string target = std::filesystem::path(target_.folder).filename().string();
  return {{"medusa_num_heads", heads_.size()},
          {"medusa_num_layers", heads_.front().blocks.size()},
          {"base_model_name_or_path", target},
          {"hidden_size", target_.config.dims.hidden},
          {"vocab_size", target_.config.dims.vocabulary},
          {"torch_dtype", "bfloat16"}};
}

}  // namespace bastion::train
