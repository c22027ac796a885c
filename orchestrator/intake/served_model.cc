#include "orchestrator/intake/served_model.h"

#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// The name of the folder, or of a GGUF file without its extension.
std::string ModelName(const std::string& folder) {
  const std::filesystem::path path = (std::filesystem::path(folder) / "").parent_path();
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

absl::Status CheckVocabulary(const hub::Tokenizer& tokenizer, int vocabulary) {
  const TokenId last = tokenizer.vocabulary() - 1;
  if (last < vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer.json has the token ", last, " (\"", tokenizer.Decode({last}, false).value_or(""),
      "\"), but vocab_size in config.json is ", vocabulary,
      "; use the tokenizer that belongs to the model, or remove the token"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(hub::ModelConfig config, hub::ReadModelConfig(folder));
  if (config.kind != hub::ModelKind::kTarget) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " contains a drafter; use the folder of the target model"));
  }
  ASSIGN_OR_RETURN(hub::Tokenizer tokenizer, hub::Tokenizer::Load(folder));
  RETURN_IF_ERROR(Annotate(CheckVocabulary(tokenizer, config.dims.vocabulary), folder));
  const std::string name = ModelName(folder);
  auto model = std::unique_ptr<ServedModel>(
      new ServedModel{name, std::move(config), std::move(tokenizer), std::nullopt, ""});
  absl::StatusOr<hub::ChatTemplate> chat = hub::ChatTemplate::Load(folder);
  if (chat.ok()) {
    model->chat_template = *std::move(chat);
  } else if (!absl::IsNotFound(chat.status())) {
    model->chat_problem = std::string(chat.status().message());
    LOG(WARNING) << "no chats, only completions: " << model->chat_problem;
  }
  return model;
}

}  // namespace bastion
