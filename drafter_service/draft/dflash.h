// DFlash: a block-diffusion drafter (Chen et al., arXiv 2602.06036; checkpoint format: z-lab's).
//
// One forward pass over [root, MASK × P] predicts P marginal distributions. The block attends to
// itself without a causal mask, and to the context: keys and values that are projected from the
// target's features of all committed tokens and stored in this model's cache. The embedding and the
// LM head are the target's.
//
// Version 2 convolves the rows of a block (hub::ConvolutionConfig), and scores pairs of candidates
// of adjacent positions (pair_selector.h). Marginals then have pair scores, and at most as many
// candidates as the selector was trained for. A checkpoint of version 2 may have an embedding and
// an LM head of its own, which are then used.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/draft/draft_model.h"
#include "drafter_service/draft/pair_selector.h"
#include "drafter_service/draft/ranking.h"
#include "engine/model/step.h"

namespace bastion::drafter {

// The weights of a DFlash drafter and those that it borrows from its target.
struct DflashWeights {
  std::unique_ptr<nn::Decoder> decoder;
  nn::Vocabulary vocabulary;
  nn::Matrix fuse;  // [C, F]
  nn::Norm context_norm;
  // Version 2 only.
  nn::Matrix pair_projection;  // [r, C]
  PairSelector pairs;

  // The bytes read and the multiply-adds for the forward of one block, including its logits and new
  // context.
  [[nodiscard]] nn::ForwardCost Cost() const;
};

// Adds the matrices to `plan`; they are empty until it has run. Returns the errors of ReadDraftPair
// and of the checkpoint's files.
[[nodiscard]] absl::StatusOr<DflashWeights> LoadDflashWeights(const std::string& drafter_folder,
                                                              const std::string& target_folder,
                                                              const nn::EngineOptions& options,
                                                              nn::PackingPlan& plan);

// Checks the checkpoints as DflashModel::Load does, without reading the weights.
[[nodiscard]] absl::StatusOr<CheckedDrafter> CheckDflash(const std::string& drafter_folder,
                                                         const std::string& target_folder,
                                                         const nn::EngineOptions& options);

class DflashModel final : public DraftModel {
 public:
  // Returns the errors of LoadDflashWeights; RESOURCE_EXHAUSTED if the device has too little
  // memory.
  static absl::StatusOr<std::unique_ptr<DflashModel>> Load(const std::string& drafter_folder,
                                                           const std::string& target_folder,
                                                           const nn::EngineOptions& options);

  void WakeUp() override { device().Wake(); }
  absl::Status AppendContext(const std::vector<ContextItem>& items) override;
  absl::StatusOr<std::vector<Marginals>> Draft(const std::vector<BlockItem>& items,
                                               int candidates) override;
  absl::Duration candidates_time() const override { return candidates_time_; }
  nn::PagePool& pages() override { return weights_.decoder->cache(); }
  nn::ForwardCost Cost() const override { return weights_.Cost(); }
  const hub::ModelConfig& config() const override { return weights_.decoder->config(); }
  const DeviceReader* device_reader() const override { return reader_.get(); }
  // Logits [B, P, V] of the last Draft in host memory, scaled and capped, for parity tests.
  [[nodiscard]] absl::StatusOr<std::vector<float>> ReadLogits();

 private:
  explicit DflashModel(DflashWeights weights) : weights_(std::move(weights)) {}

  [[nodiscard]] absl::Status Allocate();
  // Runs every size once, on a device that records.
  [[nodiscard]] absl::Status Prepare();
  // Copies the features of all items to the device, one item after the other.
  [[nodiscard]] absl::Status StageFeatures(const std::vector<ContextItem>& items);
  // Waits for the copies from the ring, but not for what was sent after them. ABORTED if rows were
  // overwritten before they were copied.
  [[nodiscard]] absl::Status CheckCopies(const std::vector<ContextItem>& items);
  // Runs or records the operations that store context rows.
  [[nodiscard]] absl::Status RunContext(int rows);
  // Runs or records the projection of the states of `rows` wanted rows for the selector.
  [[nodiscard]] absl::Status RunProjection(int rows);
  // Projects the states of the wanted rows of the last forward, and sends them to host memory.
  [[nodiscard]] absl::Status ReadPairStates();
  // Checks the candidates, and adds pair scores to those of version 2.
  [[nodiscard]] absl::Status ScorePairs(const std::vector<BlockItem>& items,
                                        std::vector<Marginals>& marginals);
  [[nodiscard]] absl::StatusOr<std::vector<Marginals>> RunDraft(const std::vector<BlockItem>& items,
                                                                int candidates);
  [[nodiscard]] nn::Device& device() const { return weights_.decoder->device(); }
  [[nodiscard]] int block() const { return config().drafter.dflash.block_size; }

  DflashWeights weights_;
  std::unique_ptr<nn::Step> step_;  // Over blocks.
  // The projected states of wanted rows, [R, r], on the device and in host memory.
  std::unique_ptr<nn::Logits> pair_states_;
  nn::Buffer host_pair_states_;
  Ranking ranking_;
  std::unique_ptr<DeviceReader> reader_;
  // Separate inputs, so that a draft can be sent while the context before it is still being
  // computed.
  nn::StepInputs context_inputs_;
  std::vector<int> context_sizes_;  // Row counts on a device that records.
  DType input_type_ = DType::kF32;
  nn::Device::Mirrored features_;  // [R, F] of input_type_
  bool context_pending_ = false;   // Context was sent after the device was last waited for.
  nn::Buffer ring_copies_;         // RingCopies in host memory. None without a reader.
  absl::Duration candidates_time_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_
