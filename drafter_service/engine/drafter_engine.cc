#include "drafter_service/engine/drafter_engine.h"

#include <filesystem>

#include "common/base/status.h"
#include "drafter_service/draft/draft_vocabulary.h"
#include "drafter_service/engine/drafter_kinds.h"

namespace bastion::drafter {

std::string FolderName(const std::string& folder) {
  return (std::filesystem::path(folder) / "").parent_path().filename().string();
}

absl::StatusOr<std::unique_ptr<DrafterEngine>> DrafterEngine::Create(const DrafterOptions& options,
                                                                     FeatureSource* features) {
  ASSIGN_OR_RETURN(const DrafterKind* const kind, FindDrafterKind(options.drafter_folder));
  DrafterOptions own = options;
  ASSIGN_OR_RETURN(
      own.engine.head_tokens,
      ReadDraftVocabulary(options.drafter_folder, options.target_folder, options.draft_vocabulary));
  return kind->make(own, features);
}

}  // namespace bastion::drafter
