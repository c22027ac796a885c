// TrainableDrafter: a drafter of one kind under training. Each kind implements it in a file of its
// own, which says the parameters, the rows, what they see, and the loss.
//
// Not thread-safe. Shape legend: common/base/ids.h. B is the number of texts, T that of the tokens
// of the longest.
#ifndef BASTION_TOOLS_TRAIN_MODELS_TRAINABLE_DRAFTER_H_
#define BASTION_TOOLS_TRAIN_MODELS_TRAINABLE_DRAFTER_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/train/models/draws.h"
#include "tools/train/models/parameters.h"

namespace bastion::train {

// The texts of one step, and what the target computed for them. Padded with zeros to T.
struct TextBatch {
  at::Tensor tokens;      // [B, T] int64
  at::Tensor prompts;     // [B] int64: the first tokens, which the target did not write
  at::Tensor lengths;     // [B] int64
  at::Tensor features;    // [B, T, F] Row t is the outputs of the feature layers for token t.
  at::Tensor head_input;  // [B, T, C] Row t times the target's head: the logits after token t.
};

// What a step learned.
struct StepLoss {
  double loss = 0;           // nats per label
  int64_t labels = 0;        // Tokens that the drafter had to predict.
  std::vector<double> hits;  // For each position, how often the most probable token was the label.
  double rank_loss = 0;      // nats per label of the rank head. 0: it does not learn.
  double pair_loss = 0;      // nats per label of the selector. 0: there is none.
  std::vector<double> pair_hits = {};  // `hits` of the selector, after true tokens.
};

class TrainableDrafter {
 public:
  virtual ~TrainableDrafter() = default;

  [[nodiscard]] virtual const Parameters& parameters() const = 0;
  // The layers of the target whose outputs it reads, in the order of a feature row.
  [[nodiscard]] virtual const std::vector<int>& feature_layers() const = 0;
  // Texts in which the target wrote fewer tokens are left out.
  [[nodiscard]] virtual int min_written() const = 0;

  // Says which step AddGradients is called for next, and what fraction of the run is over.
  virtual void BeginStep(int64_t /*step*/, double /*done*/) {}
  // Adds the gradients of the loss on `batch` to the parameters. Draws where it looks.
  virtual StepLoss AddGradients(const TextBatch& batch, Draws& draws) = 0;

  // The parameters as the checkpoint has them.
  [[nodiscard]] virtual std::vector<Parameter> Exported() const { return parameters().all(); }
  // config.json of the checkpoint.
  [[nodiscard]] virtual nlohmann::json Config() const = 0;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_TRAINABLE_DRAFTER_H_
