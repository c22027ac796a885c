#include "drafter_service/engine/drafter_engine.h"

#include <filesystem>

#include "common/base/status.h"
#include "drafter_service/engine/autoregressive_engine.h"
#include "drafter_service/engine/block_engine.h"

namespace bastion::drafter {

std::string FolderName(const std::string& folder) {
  return (std::filesystem::path(folder) / "").parent_path().filename().string();
}

absl::StatusOr<std::unique_ptr<DrafterEngine>> DrafterEngine::Create(const DrafterOptions& options,
                                                                     FeatureSource* features) {
  ASSIGN_OR_RETURN(const bool block, IsBlockDrafter(options.drafter_folder));
  return block ? MakeBlockEngine(options, features) : MakeAutoregressiveEngine(options);
}

}  // namespace bastion::drafter
