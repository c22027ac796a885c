// CheckedDrafter: what an engine would load from a drafter's checkpoint. Plain data.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_CHECKED_DRAFTER_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_CHECKED_DRAFTER_H_

#include "common/hub/model_config.h"
#include "engine/model/forward_cost.h"

namespace bastion::drafter {

struct CheckedDrafter {
  hub::ModelConfig config;
  nn::ForwardCost cost;   // The draft forward of one sequence.
  ModelDims embedding;    // The model whose embedding and LM head it uses.
  int rows = 1;           // Rows of one sequence in a draft forward.
  int logit_rows = 1;     // Those with logits.
  int feature_width = 0;  // F. 0: it reads no features.
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_CHECKED_DRAFTER_H_
