// StatefulModel: what drafters have in common whose rows read a state of the token before them:
// EAGLE-3 and P-EAGLE (eagle.h), and SpecBlock (specblock.h).
//
// For committed tokens and the root, this state comes from the target's features of the token
// before. For the nodes of a tree, it is what the drafter has computed at the row that predicted
// the node. So the rows of a committed node are computed again from features. Token 0 has no row.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_STATEFUL_MODEL_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_STATEFUL_MODEL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "drafter_service/draft/node_model.h"
#include "drafter_service/draft/ranking.h"
#include "engine/model/packing_plan.h"
#include "engine/model/step.h"

namespace bastion::drafter {

// What every such model loads.
struct StatefulWeights {
  std::unique_ptr<nn::Decoder> decoder;
  nn::Vocabulary vocabulary;  // The embedding, and the drafter's head.
  std::vector<int> feature_layers;
  int feature_width = 0;  // F
  // [F] What the rows of a node after the first read in place of features. Empty: the features.
  std::vector<float> mask_features;
};

// The options of such a model for an engine with `options`.
[[nodiscard]] inline nn::EngineOptions StatefulOptions(nn::EngineOptions options) {
  options.max_sequences *= 2;  // Spans: new context, and a tree.
  return options;
}

class StatefulModel : public NodeModel {
 public:
  void WakeUp() override { device().Wake(); }
  absl::Status Forward(const NodeRows& rows) override;
  absl::StatusOr<std::vector<Marginals>> Predict(const NodeRows& rows, absl::Span<const int> wanted,
                                                 absl::Span<const kernels::ChoiceRule> coupling,
                                                 int candidates) override;
  absl::Duration candidates_time() const override { return candidates_time_; }
  const std::vector<int>& feature_layers() const override { return weights_.feature_layers; }
  size_t state_bytes() const override {
    return expands_nodes() ? Bytes(state_type(), config().dims.hidden) : 0;
  }
  const char* state(int row) const override { return states_out_.as<char>() + row * state_bytes(); }
  int max_rows() const override {
    return weights_.decoder->capacity().rows / rows_per_token() * rows_per_token();
  }
  nn::PagePool& pages() override { return weights_.decoder->cache(); }
  const hub::ModelConfig& config() const override { return weights_.decoder->config(); }

 protected:
  explicit StatefulModel(StatefulWeights weights) : weights_(std::move(weights)) {}

  // Allocates memory and runs every size once, on a device that records.
  [[nodiscard]] absl::Status Prepare();

  // ---- what a model does its own way ----
  // Fills the residual stream of `rows` before the blocks, from features() or from states().
  virtual void Enter(const kernels::Rows& rows, bool from_features) = 0;
  // Whether features are edited before they are sent to the device, and how: values [F]. The mask
  // features are edited, too.
  [[nodiscard]] virtual bool edits_features() const { return false; }
  virtual void EditFeatures(float* /*values*/) const {}
  // Completes a Predict, when the states of its `rows` rows are in host memory. `coupled`: rules
  // ranked the candidates of some marginals.
  [[nodiscard]] virtual absl::Status Complete(int /*rows*/, absl::Span<const int> /*wanted*/,
                                              bool /*coupled*/,
                                              std::vector<Marginals>& /*marginals*/) {
    return absl::OkStatus();
  }

  [[nodiscard]] const StatefulWeights& weights() const { return weights_; }
  [[nodiscard]] nn::Device& device() const { return weights_.decoder->device(); }
  [[nodiscard]] DType state_type() const { return weights_.decoder->options().formats.activations; }
  // In device memory: [R, F] of the input type of products, and [R, C] of state_type().
  [[nodiscard]] const void* features() const { return features_.device.data(); }
  [[nodiscard]] const void* states() const { return states_in_.device.data(); }
  // The most probable tokens of the rows wanted in the last Predict, without coupling.
  [[nodiscard]] absl::StatusOr<std::vector<Marginals>> RankUncoupled(int candidates) {
    return ranking_.Rank(*step_, positions(), candidates, /*coupled=*/false);
  }
  // The states of the last Predict, in host memory.
  [[nodiscard]] char* mutable_state(int row) const {
    return states_out_.as<char>() + row * state_bytes();
  }
  // `rows` with tokens 0, 1, …: an embedding then reads a table row by row.
  [[nodiscard]] kernels::Rows Numbered(kernels::Rows rows) const {
    rows.tokens = row_numbers_.as<int32_t>();
    return rows;
  }

 private:
  // Sends what the rows read beside their tokens, and runs the forward.
  [[nodiscard]] absl::Status Run(const NodeRows& rows, absl::Span<const int> wanted,
                                 absl::Span<const kernels::ChoiceRule> rules);
  [[nodiscard]] absl::Status StageFeatures(const NodeRows& rows);
  [[nodiscard]] absl::Status StageStates(const NodeRows& rows);
  // Converts values [F] of `type` to the input type, for one row. Returns the end of the row.
  char* Stage(const void* values, DType type, char* to) const;

  StatefulWeights weights_;
  std::unique_ptr<nn::Step> step_;
  Ranking ranking_;
  DType input_type_ = DType::kF32;
  nn::Device::Mirrored features_;   // [R, F] of input_type_
  nn::Device::Mirrored states_in_;  // [R, C] of state_type()
  nn::Buffer states_out_;           // [R, C] of state_type(), host memory
  nn::Buffer row_numbers_;          // [R] 0, 1, …
  absl::Duration candidates_time_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_STATEFUL_MODEL_H_
