// CausalModel: the decoder and the vocabulary of a target model, loaded from one checkpoint.
// Targets and autoregressive drafters are such models.
#ifndef BASTION_ENGINE_MODEL_CAUSAL_MODEL_H_
#define BASTION_ENGINE_MODEL_CAUSAL_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/decoder.h"
#include "engine/model/packing_plan.h"

namespace bastion::nn {

struct CausalModel {
  std::unique_ptr<Decoder> decoder;
  Vocabulary vocabulary;

  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] ForwardCost Cost() const;
};

// Loads the model in `folder`, a Hugging Face folder of any family in common/hub/model_family.cc or
// a GGUF file. Trees may have `tree_rows` rows. Adds the matrices to `plan`; they are empty until
// it has run. Errors name the folder and, where it applies, the file and the field or tensor: those
// of hub::ReadTargetConfig, hub::Checkpoint, hub::CheckAllRead and Decoder::Load.
[[nodiscard]] absl::StatusOr<CausalModel> LoadCausalModel(const std::string& folder,
                                                          const EngineOptions& options,
                                                          PackingPlan& plan, int tree_rows = 0);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_CAUSAL_MODEL_H_
