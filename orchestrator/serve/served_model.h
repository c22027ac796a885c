// ServedModel: the parts of the target's folder that the orchestrator needs: everything except the
// weights. Thread-safe: immutable after Load.
#ifndef BASTION_ORCHESTRATOR_SERVE_SERVED_MODEL_H_
#define BASTION_ORCHESTRATOR_SERVE_SERVED_MODEL_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/call_once.h"
#include "absl/status/statusor.h"
#include "common/hub/chat_template.h"
#include "common/hub/grammar.h"
#include "common/hub/model_config.h"
#include "common/hub/tokenizer.h"

namespace bastion {

// Makes the compiler of a model's grammars at its first use, because that takes time and memory.
// Thread-safe.
class GrammarCompilerOnce {
 public:
  // The arguments are those of GrammarCompiler::Create, the same in every call.
  [[nodiscard]] const absl::StatusOr<hub::GrammarCompiler>& Get(
      const hub::Tokenizer& tokenizer, const hub::ModelConfig& config) const {
    absl::call_once(once_, [&] {
      compiler_.emplace(
          hub::GrammarCompiler::Create(tokenizer, config.dims.vocabulary, config.special.eos));
    });
    return *compiler_;
  }

 private:
  mutable absl::once_flag once_;
  mutable std::optional<absl::StatusOr<hub::GrammarCompiler>> compiler_;
};

struct ServedModel {
  std::string name;  // The name of the folder.
  hub::ModelConfig config;
  hub::Tokenizer tokenizer;
  std::optional<hub::ChatTemplate> chat_template;
  GrammarCompilerOnce grammars = {};

  // Reads the model from `folder`. Error messages name the file.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::string& folder);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_SERVED_MODEL_H_
