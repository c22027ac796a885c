// What the engine asks of a block drafter, wherever it runs: DflashModel on the CPU, CudaDflash on
// a GPU.
//
// Not thread-safe: one call at a time.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/model_config.h"
#include "common/nn/device.h"
#include "common/nn/page_pool.h"
#include "common/nn/row_batch.h"
#include "common/stages/features.h"
#include "common/stages/marginals.h"
#include "common/stages/sampling_params.h"
#include "kernels/ops.h"
#include "kernels/pack.h"

namespace bastion::drafter {

// New context of one sequence: features of tokens [cached, cached + features.rows()).
struct ContextItem {
  nn::PageTable* table = nullptr;
  Position cached = 0;
  Features features;
};

// A block to draft after `cached` context tokens.
struct BlockItem {
  nn::PageTable* table = nullptr;
  Position cached = 0;
  TokenId root = 0;
  std::optional<ChoiceParams> coupling = std::nullopt;  // Rank by the keyed choice's own values.
};

class DraftModel {
 public:
  virtual ~DraftModel() = default;

  // Told as soon as it is known that a call follows.
  virtual void WakeUp() {}

  // Projects new context rows into the cache. RESOURCE_EXHAUSTED when the cache is full,
  // INVALID_ARGUMENT for features of another width, ABORTED for features on the device that were
  // overwritten while they were read: then nothing was appended, and their bytes may be.
  [[nodiscard]] virtual absl::Status AppendContext(const std::vector<ContextItem>& items) = 0;

  // One forward over all blocks; P marginals of `candidates` tokens for each. The block's own keys
  // and values are dropped afterwards.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Marginals>> Draft(
      const std::vector<BlockItem>& items, int candidates) = 0;

  virtual void Release(nn::PageTable& table) = 0;

  // Of one block with its logits, and its new context.
  [[nodiscard]] virtual nn::ForwardCost Cost() const = 0;
  [[nodiscard]] virtual const hub::ModelConfig& config() const = 0;
  // How it reads features in the memory of its GPU; null: it takes bytes alone.
  [[nodiscard]] virtual const DeviceReader* device_reader() const { return nullptr; }

  [[nodiscard]] int positions() const { return config().dflash.block_size - 1; }  // P
  [[nodiscard]] int feature_width() const {                                       // F
    return static_cast<int>(config().dflash.target_layer_ids.size()) * config().dims.hidden;
  }
};

// How an engine comes by its model: LoadCpuDflash, or LoadCudaDflash of a build with CUDA.
using DraftModelLoader = absl::StatusOr<std::unique_ptr<DraftModel>> (*)(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options);

// The configs of a drafter and its target, which belong together. INVALID_ARGUMENT when they do not
// (vocabulary, width, layer count), with both values.
struct DraftPair {
  hub::ModelConfig drafter;  // With positions for blocks that begin at the target's last one.
  hub::ModelConfig target;
};
[[nodiscard]] absl::StatusOr<DraftPair> ReadDraftPair(const std::string& drafter_folder,
                                                      const std::string& target_folder);

// The rows of new context: those of `items` that have any, pages for them reserved.
// RESOURCE_EXHAUSTED when there are none left, INVALID_ARGUMENT for features of another width.
[[nodiscard]] absl::StatusOr<nn::RowBatch> LayOutContext(const std::vector<ContextItem>& items,
                                                         int feature_width, nn::PagePool& pages);
// The rows of the blocks: root and masks, all of which see each other.
[[nodiscard]] nn::RowBatch LayOutBlocks(const std::vector<BlockItem>& items,
                                        const hub::DFlashConfig& config);

// How the positions of all blocks are ranked: [B, P], position i of a block being the choice of the
// token i + 1 places after its root. Temperature 0 where a block is not coupled.
[[nodiscard]] std::vector<kernels::ChoiceRule> CouplingRules(const std::vector<BlockItem>& items,
                                                             int positions);

// Tokens and log-probabilities [B, skipped + P, K], of which the skipped rows of a block say
// nothing.
struct Candidates {
  const TokenId* tokens = nullptr;
  const float* log_probs = nullptr;
  int positions = 0;  // P
  int count = 0;      // K
  int skipped = 0;
};
[[nodiscard]] std::vector<Marginals> MarginalsOf(const Candidates& candidates, int blocks);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_H_
