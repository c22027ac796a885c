// What EAGLE-3, ParallelSpec and SpecBlock drafters have in common: they read features of the
// target, and have a head of their own, which may predict only some of the target's tokens.
#ifndef BASTION_TOOLS_TRAIN_MODELS_FEATURE_HEAD_H_
#define BASTION_TOOLS_TRAIN_MODELS_FEATURE_HEAD_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/parameters.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

// The target layers that the shape names, or the default. Empty if the target has too few layers
// for the default.
[[nodiscard]] std::vector<int> FeatureLayersOf(const hub::ModelConfig& target,
                                               const DrafterShape& shape);
// INVALID_ARGUMENT for `layers` that the format cannot name, and for draft tokens that the target
// does not have.
[[nodiscard]] absl::Status CheckFeatureHead(const hub::ModelConfig& target,
                                            const std::vector<int>& layers,
                                            const DrafterShape& shape);
// The object eagle_config of config.json, which names the layers.
[[nodiscard]] nlohmann::json FeatureLayersJson(std::vector<int> layers);
// The drafter's config: the target's dimensions, with `layers` layers and blocks like Llama's.
[[nodiscard]] hub::ModelConfig LlamaDrafterConfig(const hub::ModelConfig& target, int layers,
                                                  const DrafterShape& shape);

// The columns of the drafter's logits.
struct DraftColumns {
  // Adds the constant d2t to `parameters` if the drafter predicts only `tokens`. Empty: all tokens.
  DraftColumns(const FrozenTarget& target, const std::vector<TokenId>& tokens,
               Parameters& parameters);

  at::Tensor of_tokens;    // [V] The column of a token, or −1.
  at::Tensor target_head;  // [D, C] The rows of the target's head for the columns.
};

// Copies what fits from a layer of the target to a block of the drafter whose attention reads
// joined rows, tokens first: to the half that reads states. The norm of the tokens stays as it is,
// because embeddings are not what the target's norm reads. Errors: those of CopyFromLayer.
[[nodiscard]] absl::Status CopyJoinedBlock(const FrozenTarget& target, int layer,
                                           const std::string& block, const Parameters& parameters);

// What a drafter predicts after anchors.
struct DraftRows {
  at::Tensor rows;      // [B, A, S, C] The normed outputs. Row s predicts token anchor + s + 1.
  at::Tensor anchors;   // [B, A]
  at::Tensor decay;     // [S] How much the rows count.
  at::Tensor own_head;  // [D, C] The drafter's.
};

// Adds the gradients of the cross-entropy to the target's distribution over the columns. A place
// whose most probable token has no column counts nothing.
StepLoss AddDraftHeadGradients(const DraftRows& draft, const TextBatch& batch,
                               const FrozenTarget& target, const DraftColumns& columns);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_FEATURE_HEAD_H_
