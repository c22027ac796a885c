// Medusa: heads over the target's last hidden state (Cai et al., arXiv 2401.10774), in the formats
// of its authors and of TGI.
//
// All heads read the state that predicted the root: the output of the target's last layer at the
// last committed token, after the target's final norm. Head i predicts the token i + 1 places after
// the root. It is residual blocks x + SiLU(W x + b), then a matrix; heads without a matrix use the
// target's LM head. There is no cache, and only the root is expanded.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_MEDUSA_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_MEDUSA_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/draft/node_model.h"
#include "engine/model/device.h"
#include "engine/model/packing_plan.h"
#include "engine/model/weights.h"

namespace bastion::drafter {

struct MedusaHead {
  std::vector<nn::Matrix> blocks;  // [C, C] each, with biases
  nn::Matrix matrix;               // [D, C]
};

struct MedusaWeights {
  hub::ModelConfig config;  // The target's dimensions. max_positions covers all heads.
  std::vector<int> feature_layers;
  nn::Norm final_norm;  // The target's.
  std::vector<MedusaHead> heads;
  nn::Buffer ids;  // [D] The tokens of the columns of the logits. No memory: all tokens.
};

// Checks the checkpoints as MedusaModel::Load does, without reading the weights.
[[nodiscard]] absl::StatusOr<CheckedDrafter> CheckMedusa(const std::string& drafter_folder,
                                                         const std::string& target_folder,
                                                         const nn::EngineOptions& options);

class MedusaModel final : public NodeModel {
 public:
  // INVALID_ARGUMENT if the heads were trained for another target; the errors of the checkpoint's
  // files; RESOURCE_EXHAUSTED if the device has too little memory.
  static absl::StatusOr<std::unique_ptr<MedusaModel>> Load(const std::string& drafter_folder,
                                                           const std::string& target_folder,
                                                           const nn::EngineOptions& options);

  void WakeUp() override { device().Wake(); }
  // Does nothing: there is no context.
  absl::Status Forward(const NodeRows& /*rows*/) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<Marginals>> Predict(const NodeRows& rows, absl::Span<const int> wanted,
                                                 absl::Span<const kernels::ChoiceRule> coupling,
                                                 int candidates) override;
  absl::Duration candidates_time() const override { return candidates_time_; }
  int positions() const override { return static_cast<int>(weights_.heads.size()); }
  int rows_per_token() const override { return 0; }
  bool expands_nodes() const override { return false; }
  const std::vector<int>& feature_layers() const override { return weights_.feature_layers; }
  size_t state_bytes() const override { return 0; }
  const char* state(int /*row*/) const override { return nullptr; }
  int max_rows() const override { return options_.max_sequences * positions(); }
  nn::PagePool& pages() override { return pages_; }
  const hub::ModelConfig& config() const override { return weights_.config; }
  nn::ForwardCost Cost() const override;

 private:
  MedusaModel(MedusaWeights weights, const nn::EngineOptions& options)
      : weights_(std::move(weights)),
        options_(options),
        pages_(options.max_sequences * nn::PagesFor(positions())) {}

  // Allocates memory and runs every size once, on a device that records.
  [[nodiscard]] absl::Status Prepare();
  // Runs or records all heads over `roots` roots.
  [[nodiscard]] absl::Status RunHeads(int roots);
  // Sends the features of the roots. Returns the number of roots.
  [[nodiscard]] absl::StatusOr<int> StageFeatures(const NodeRows& rows);
  // Ranks the candidates of all heads for `roots` roots, padded to `rows`.
  [[nodiscard]] absl::StatusOr<std::vector<Marginals>> Rank(int roots, int rows, int candidates);
  [[nodiscard]] nn::Device& device() const { return *options_.device; }
  [[nodiscard]] DType type() const { return options_.formats.activations; }

  const MedusaWeights weights_;
  const nn::EngineOptions options_;
  nn::PagePool pages_;  // The rows of a root need slots, but nothing is stored in them.
  std::unique_ptr<nn::Activations> activations_;
  std::vector<std::unique_ptr<nn::Logits>> logits_;  // [B, D] of each head
  std::vector<int> sizes_;                           // Numbers of roots on a device that records.
  nn::Device::Mirrored features_;                    // [B, C] of type()
  nn::Device::Mirrored rules_;                       // [P, B]
  nn::Device::Mirrored used_;                        // [1] Roots.
  nn::Buffer numbers_;                               // [B] 0, 1, …
  nn::Buffer tokens_, log_probs_;                    // [P, B, K], host memory
  size_t ranked_ = 0;                                // Elements of the two.
  absl::Duration candidates_time_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_MEDUSA_H_
