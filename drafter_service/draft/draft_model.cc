#include "drafter_service/draft/draft_model.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::drafter {
namespace {

absl::Status CheckPair(const std::string& folder, const hub::ModelConfig& drafter,
                       const hub::ModelConfig& target) {
  if (drafter.kind != hub::ModelKind::kDflash) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": ", drafter.architecture, " is not a DFlash drafter"));
  }
  if (drafter.dims.vocabulary != target.dims.vocabulary) {
    return OtherTarget(folder, "vocabulary", drafter.dims.vocabulary, target.dims.vocabulary);
  }
  if (drafter.dims.hidden != target.dims.hidden) {
    return OtherTarget(folder, "hidden width", drafter.dims.hidden, target.dims.hidden);
  }
  const hub::DFlashConfig& dflash = drafter.drafter.dflash;
  if (dflash.num_target_layers > 0 && dflash.num_target_layers != target.dims.layers) {
    return OtherTarget(folder, "num_target_layers", dflash.num_target_layers, target.dims.layers);
  }
  const int last =
      *std::max_element(dflash.target_layer_ids.begin(), dflash.target_layer_ids.end());
  if (last < target.dims.layers) return absl::OkStatus();
  return OtherTarget(folder, "last feature layer", last, target.dims.layers - 1);
}

}  // namespace

absl::Status OtherTarget(const std::string& drafter_folder, const char* what, int own, int target) {
  return absl::InvalidArgumentError(
      absl::StrCat(drafter_folder, ": this drafter was trained for another target: its ", what,
                   " is ", own, ", but the target's is ", target));
}

absl::StatusOr<DraftPair> ReadDraftPair(const std::string& drafter_folder,
                                        const std::string& target_folder) {
  DraftPair pair;
  ASSIGN_OR_RETURN(pair.drafter, hub::ReadModelConfig(drafter_folder));
  ASSIGN_OR_RETURN(pair.target, hub::ReadModelConfig(target_folder));
  RETURN_IF_ERROR(CheckPair(drafter_folder, pair.drafter, pair.target));
  pair.drafter.max_positions =
      std::min(pair.drafter.max_positions, pair.target.max_positions) +
      pair.drafter.drafter.dflash.block_size;  // A block may extend past the last token.
  return pair;
}

absl::StatusOr<nn::RowBatch> LayOutContext(const std::vector<ContextItem>& items, int feature_width,
                                           nn::PagePool& pages) {
  nn::RowBatch batch;
  for (const ContextItem& item : items) {
    const int rows = item.features.rows();
    if (rows == 0) continue;
    if (item.features.width != feature_width) {
      return absl::InvalidArgumentError(absl::StrCat("features have width ", item.features.width,
                                                     "; this drafter needs ", feature_width));
    }
    RETURN_IF_ERROR(pages.Reserve(*item.table, item.cached + rows));
    batch.AddRun({item.table, item.cached, kernels::RowMask::kCausal},
                 std::vector<TokenId>(rows, 0));
  }
  return batch;
}

nn::RowBatch LayOutBlocks(const std::vector<BlockItem>& items, const hub::DFlashConfig& config) {
  nn::RowBatch batch;
  for (const BlockItem& item : items) {
    std::vector<TokenId> tokens(config.block_size, config.mask_token);
    tokens[0] = item.root;
    batch.AddRun({item.table, item.cached, kernels::RowMask::kFull}, tokens);
  }
  return batch;
}

kernels::ChoiceRule CouplingRule(const ChoiceParams& choice, Position position) {
  const int top_k = std::min(choice.top_k, std::numeric_limits<int>::max() / 2);
  return {choice.temperature,         choice.seed,     position, 2 * top_k,
          1 - (1 - choice.top_p) / 2, choice.min_p / 2};
}

std::vector<kernels::ChoiceRule> CouplingRules(const std::vector<BlockItem>& items, int positions) {
  std::vector<kernels::ChoiceRule> rules(items.size() * positions);
  for (size_t b = 0; b < items.size(); ++b) {
    if (!items[b].coupling) continue;
    for (int i = 0; i < positions; ++i) {
      rules[b * positions + i] = CouplingRule(*items[b].coupling, items[b].cached + 1 + i);
    }
  }
  return rules;
}

}  // namespace bastion::drafter
