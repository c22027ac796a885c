#include "drafter_service/draft/feature_pair.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "drafter_service/draft/draft_model.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

constexpr char kOffsets[] = "d2t";  // [D] of each column of the logits: its token minus its number.
constexpr char kMembers[] = "t2d";  // [V] which tokens have a column. Only a trainer needs it.
constexpr char kEmbedding[] = "embed_tokens.weight";
constexpr char kHead[] = "lm_head.weight";
// The drafter rotates by its own frequencies at all positions of its target, and below them.
constexpr int kDepth = 64;

absl::Status CheckDims(const FeaturePair& pair) {
  const ModelDims &own = pair.drafter.dims, &target = pair.target.dims;
  const std::string& folder = pair.checkpoint->folder();
  const int expected = pair.drafter.drafter.head.target_hidden;
  if (own.vocabulary != target.vocabulary) {
    return OtherTarget(folder, "vocabulary", own.vocabulary, target.vocabulary);
  }
  if (expected != target.hidden) {
    return OtherTarget(folder, "hidden width of the target", expected, target.hidden);
  }
  if (own.hidden != target.hidden && !pair.checkpoint->Has(kEmbedding)) {
    return OtherTarget(folder, "hidden width", own.hidden, target.hidden);
  }
  return absl::OkStatus();
}

// Sets the layers if the config lists none. INVALID_ARGUMENT if the target lacks one.
absl::Status CompleteLayers(FeaturePair& pair) {
  constexpr int kMinLayers = 5;  // DefaultEagleLayers needs them.
  const int layers = pair.target.dims.layers;
  std::vector<int>& ids = pair.drafter.drafter.head.target_layers;
  if (ids.empty() && layers >= kMinLayers) ids = hub::DefaultEagleLayers(layers);
  const bool known = std::all_of(ids.begin(), ids.end(), [&](int id) { return id < layers; });
  if (known && !ids.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      pair.checkpoint->folder(), ": this drafter reads layers that the target, which has ", layers,
      " layers, does not have; it was trained for another target"));
}

// A column of the logits: its token, and its row of the head's tensor.
struct Column {
  TokenId token = 0;
  int row = 0;
};

// The columns by token, ascending.
absl::StatusOr<std::vector<Column>> ReadColumns(const FeaturePair& pair) {
  const int count = pair.drafter.drafter.head.vocabulary;
  const int vocabulary = pair.target.dims.vocabulary;
  const std::string& folder = pair.checkpoint->folder();
  std::vector<Column> columns(count);
  for (int i = 0; i < count; ++i) columns[i] = {i, i};
  if (!pair.checkpoint->Has(kOffsets)) {
    if (count == vocabulary) return columns;
    return absl::InvalidArgumentError(absl::StrCat(folder, ": the head has ", count, " of ",
                                                   vocabulary, " tokens, but there is no tensor '",
                                                   kOffsets, "' that says which"));
  }
  ASSIGN_OR_RETURN(const hub::TensorView view, pair.checkpoint->Find(kOffsets));
  if (view.dtype != DType::kI64 || view.shape != std::vector<int64_t>{count}) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": tensor '", kOffsets, "' must have ", count, " int64 numbers"));
  }
  const auto* const offsets = static_cast<const int64_t*>(view.data);
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < -i || offsets[i] >= vocabulary - i) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": tensor '", kOffsets, "': entry ", i, " is ", offsets[i],
                       "; the token is outside the vocabulary of ", vocabulary));
    }
    columns[i].token = static_cast<TokenId>(i + offsets[i]);
  }
  std::sort(columns.begin(), columns.end(),
            [](const Column& a, const Column& b) { return a.token < b.token; });
  const auto same =
      std::adjacent_find(columns.begin(), columns.end(),
                         [](const Column& a, const Column& b) { return a.token == b.token; });
  if (same == columns.end()) return columns;
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": tensor '", kOffsets, "' gives token ", same->token, " two columns"));
}

}  // namespace

absl::StatusOr<FeaturePair> ReadFeaturePair(const std::string& drafter_folder,
                                            const std::string& target_folder) {
  FeaturePair pair;
  ASSIGN_OR_RETURN(pair.drafter, hub::ReadModelConfig(drafter_folder));
  ASSIGN_OR_RETURN(pair.target, hub::ReadModelConfig(target_folder));
  ASSIGN_OR_RETURN(pair.checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(pair.target_checkpoint, hub::Checkpoint::Open(target_folder));
  RETURN_IF_ERROR(CheckDims(pair));
  RETURN_IF_ERROR(CompleteLayers(pair));
  hub::TensorNames& names = pair.drafter.names;
  if (pair.checkpoint->Has("midlayer.self_attn.q_proj.weight")) names.only_block = "midlayer.";
  names.query_norm = "self_attn.q_norm";
  names.key_norm = "self_attn.k_norm";
  pair.drafter.blocks.query_key_norm =
      pair.checkpoint->Has(names.Block(0) + names.query_norm + ".weight");
  pair.drafter.max_positions = pair.target.max_positions + kDepth;
  return pair;
}

absl::StatusOr<nn::Vocabulary> LoadDraftVocabulary(const FeaturePair& pair,
                                                   const nn::EngineOptions& options,
                                                   nn::PackingPlan& plan) {
  const ModelDims& dims = pair.drafter.dims;
  const std::string table = pair.target.names.embedding + ".weight";
  ASSIGN_OR_RETURN(const std::vector<Column> columns, ReadColumns(pair));
  const nn::WeightLoader own(*options.device, pair.checkpoint, options.formats, plan);
  const nn::WeightLoader target(*options.device, pair.target_checkpoint, options.formats, plan);
  const std::vector<TokenId>* const chosen = options.head_tokens.get();
  nn::Vocabulary vocabulary;
  vocabulary.type = own.formats().activations;
  ASSIGN_OR_RETURN(vocabulary.table, pair.checkpoint->Has(kEmbedding)
                                         ? own.Table(kEmbedding, dims.vocabulary, dims.hidden)
                                         : target.Table(table, dims.vocabulary, dims.hidden));
  std::vector<TokenId> ids;
  std::vector<int32_t> rows;
  for (const Column& column : columns) {
    if (chosen != nullptr && !std::binary_search(chosen->begin(), chosen->end(), column.token)) {
      continue;
    }
    ids.push_back(column.token);
    rows.push_back(column.row);
  }
  if (ids.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(pair.checkpoint->folder(),
                     ": the drafter can predict none of the tokens of --draft_vocabulary"));
  }
  const auto total = static_cast<int>(columns.size());
  const std::string target_head =
      pair.target.tie_word_embeddings ? table : pair.target.names.head + ".weight";
  ASSIGN_OR_RETURN(
      vocabulary.head,
      pair.checkpoint->Has(kHead)
          ? own.Stacked(nn::ChosenRows(kHead, total, rows), dims.hidden)
          : target.Stacked(nn::ChosenRows(target_head, dims.vocabulary, rows), dims.hidden));
  if (static_cast<int>(ids.size()) < dims.vocabulary) {
    ASSIGN_OR_RETURN(vocabulary.ids, nn::IdsOn(own.device(), ids));
  }
  return vocabulary;
}

absl::Status CheckAllRead(const FeaturePair& pair) {
  return hub::CheckAllRead(*pair.checkpoint, pair.drafter.names, /*tied=*/false,
                           {kOffsets, kMembers});
}

void HostNorm::Apply(float* values) const {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += double{values[i]} * values[i];
  const auto scale =
      static_cast<float>(1 / std::sqrt(squares / static_cast<double>(weight.size()) + epsilon));
  for (size_t i = 0; i < weight.size(); ++i) values[i] *= scale * weight[i];
}

absl::StatusOr<HostNorm> ReadHostNorm(const FeaturePair& pair, const std::string& name, int width) {
  ASSIGN_OR_RETURN(const hub::TensorView view, pair.checkpoint->Tensor(name + ".weight", {width}));
  HostNorm norm;
  norm.epsilon = static_cast<float>(pair.drafter.blocks.norm_epsilon);
  norm.weight.resize(width);
  kernels::ConvertElements(view.dtype, view.data, width, DType::kF32, norm.weight.data());
  return norm;
}

}  // namespace bastion::drafter
