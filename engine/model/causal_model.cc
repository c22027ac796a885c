#include "engine/model/causal_model.h"

#include "common/base/status.h"
#include "common/hub/checkpoint.h"

namespace bastion::nn {

ForwardCost CausalModel::Cost() const {
  ForwardCost cost = decoder->Cost();
  cost.Add(vocabulary.head);
  return cost;
}

absl::StatusOr<CausalModel> LoadCausalModel(const std::string& folder, const EngineOptions& options,
                                            PackingPlan& plan, int tree_rows) {
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadTargetConfig(folder));
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(folder));
  const WeightLoader loader(*options.device, checkpoint, options.formats, plan);
  CausalModel model;
  ASSIGN_OR_RETURN(model.decoder,
                   Decoder::Load(loader, config, options, CapacityOf(config, options, tree_rows)));
  ASSIGN_OR_RETURN(model.vocabulary, LoadVocabulary(loader, config, options.head_tokens.get()));
  RETURN_IF_ERROR(hub::CheckAllRead(*checkpoint, config.names, config.tie_word_embeddings));
  return model;
}

}  // namespace bastion::nn
