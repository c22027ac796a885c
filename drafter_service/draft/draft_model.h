// The interface between the engine and a block drafter.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/hub/model_config.h"
#include "common/stages/features.h"
#include "common/stages/marginals.h"
#include "common/stages/sampling_params.h"
#include "engine/model/forward_cost.h"
#include "engine/model/page_pool.h"
#include "engine/model/row_batch.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/pack.h"

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
  // If set, candidates are ranked by the values that the target's keyed choice will compare
  // (coupled drafting).
  std::optional<ChoiceParams> coupling = std::nullopt;
};

class DraftModel {
 public:
  virtual ~DraftModel() = default;

  // Hint that a call is about to start. Wakes the worker threads.
  virtual void WakeUp() {}

  // Projects new context rows into the cache. RESOURCE_EXHAUSTED if the cache is full;
  // INVALID_ARGUMENT for features of the wrong width; ABORTED if features on the device were
  // overwritten while they were read. After ABORTED, nothing has been appended, and the caller may
  // append the features as bytes.
  [[nodiscard]] virtual absl::Status AppendContext(const std::vector<ContextItem>& items) = 0;

  // Runs one forward over all blocks and returns P marginals of `candidates` tokens for each. The
  // blocks' own keys and values are discarded afterwards.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Marginals>> Draft(
      const std::vector<BlockItem>& items, int candidates) = 0;

  // The part of the last Draft that ranked candidates. Zero if it is not measured on its own.
  [[nodiscard]] virtual absl::Duration candidates_time() const { return absl::ZeroDuration(); }

  // The pages of the cache.
  [[nodiscard]] virtual nn::PagePool& pages() = 0;

  // The bytes read and the multiply-adds for the forward of one block, including its logits and new
  // context.
  [[nodiscard]] virtual nn::ForwardCost Cost() const = 0;
  [[nodiscard]] virtual const hub::ModelConfig& config() const = 0;
  // How the model reads features in GPU memory. Null: it accepts only bytes.
  [[nodiscard]] virtual const DeviceReader* device_reader() const { return nullptr; }

  [[nodiscard]] int positions() const { return config().drafter.dflash.block_size - 1; }  // P
  [[nodiscard]] int feature_width() const {                                               // F
    return static_cast<int>(config().drafter.dflash.target_layer_ids.size()) * config().dims.hidden;
  }
};

// The error for a drafter whose `what` is `own`, while the target's is `target`.
[[nodiscard]] absl::Status OtherTarget(const std::string& drafter_folder, const char* what, int own,
                                       int target);

// The configurations of a drafter and its target. INVALID_ARGUMENT, with both values, if they do
// not match in vocabulary, hidden width or number of layers.
struct DraftPair {
  hub::ModelConfig drafter;  // max_positions covers a block at the target's last position.
  hub::ModelConfig target;
};
[[nodiscard]] absl::StatusOr<DraftPair> ReadDraftPair(const std::string& drafter_folder,
                                                      const std::string& target_folder);

// The rows of the items' new context, with pages reserved for them. RESOURCE_EXHAUSTED if no pages
// are left; INVALID_ARGUMENT for features of the wrong width.
[[nodiscard]] absl::StatusOr<nn::RowBatch> LayOutContext(const std::vector<ContextItem>& items,
                                                         int feature_width, nn::PagePool& pages);
// The rows of the blocks: a root and its masks, which all attend to each other.
[[nodiscard]] nn::RowBatch LayOutBlocks(const std::vector<BlockItem>& items,
                                        const hub::DFlashConfig& config);

// The choice rule that ranks the candidates for the token at `position`: the target's, with its
// truncation halved, so that about twice as many candidates remain. The drafter's probabilities
// differ slightly from the target's.
[[nodiscard]] kernels::ChoiceRule CouplingRule(const ChoiceParams& choice, Position position);
// [B, P] The choice rules that rank each position's candidates. Position i of a block chooses the
// token i + 1 places after its root. The rules of a block without coupling have temperature 0.
[[nodiscard]] std::vector<kernels::ChoiceRule> CouplingRules(const std::vector<BlockItem>& items,
                                                             int positions);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_H_
