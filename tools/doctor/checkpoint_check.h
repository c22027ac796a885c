// Checks checkpoints as the services do when they start, on a CPU, without reading the weights: it
// checks all tensors but never packs them. The functions return the same errors as the services.
//
// Thread-safe: no state.
#ifndef BASTION_TOOLS_DOCTOR_CHECKPOINT_CHECK_H_
#define BASTION_TOOLS_DOCTOR_CHECKPOINT_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/model_config.h"
#include "engine/model/engine_options.h"
#include "engine/model/forward_cost.h"

namespace bastion::doctor {

// What an engine would load.
struct CheckedModel {
  hub::ModelConfig config;
  nn::ForwardCost cost;     // What a forward of one row reads and multiplies.
  int64_t table_bytes = 0;  // The embedding table.
  int rows = 1;             // Rows of a sequence in one draft forward.
  int logit_rows = 1;       // Those with logits.
  int feature_width = 0;    // F of the features that it reads. 0: none.
};

// What bastion-verifier checks. The errors are those of verifier::LoadTarget.
[[nodiscard]] absl::StatusOr<CheckedModel> CheckTarget(const std::string& folder,
                                                       const nn::EngineOptions& options);

// What bastion-drafter checks. The errors are those of drafter::DrafterEngine::Create.
[[nodiscard]] absl::StatusOr<CheckedModel> CheckDrafter(const std::string& drafter_folder,
                                                        const std::string& target_folder,
                                                        const nn::EngineOptions& options);

// What bastion-orchestrator checks: the target's tokenizer and chat template and, unless
// `drafter_folder` is empty, the transition table in it. Returns the bytes of the table, 0 without
// one.
[[nodiscard]] absl::StatusOr<int64_t> CheckServing(const std::string& target_folder,
                                                   const std::string& drafter_folder);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_CHECKPOINT_CHECK_H_
