// ServedModel: the parts of the target's folder that the orchestrator needs: everything except the
// weights. Thread-safe: immutable after Load.
#ifndef BASTION_ORCHESTRATOR_INTAKE_SERVED_MODEL_H_
#define BASTION_ORCHESTRATOR_INTAKE_SERVED_MODEL_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/chat_template.h"
#include "common/hub/model_config.h"
#include "common/hub/tokenizer.h"

namespace bastion {

struct ServedModel {
  std::string name;  // The name of the folder.
  hub::ModelConfig config;
  hub::Tokenizer tokenizer;
  std::optional<hub::ChatTemplate> chat_template;
  // Why the chat template cannot be used. Chats are refused with it, completions go on. Empty: it
  // can, or there is none.
  std::string chat_problem;

  // Reads the model from `folder`. Error messages name the file.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::string& folder);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_SERVED_MODEL_H_
