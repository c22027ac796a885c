#include "drafter_service/engine/drafter_kinds.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "drafter_service/draft/autoregressive.h"
#include "drafter_service/draft/dflash.h"
#include "drafter_service/draft/eagle.h"
#include "drafter_service/draft/medusa.h"
#include "drafter_service/draft/specblock.h"
#include "drafter_service/engine/autoregressive_engine.h"
#include "drafter_service/engine/block_engine.h"

namespace bastion::drafter {
namespace {

// The block engine with a model of class Model.
template <typename Model>
absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeBlock(const DrafterOptions& options,
                                                         FeatureSource* features) {
  return MakeBlockEngine(
      options, features,
      [](const std::string& drafter_folder, const std::string& target_folder,
         const nn::EngineOptions& engine) -> absl::StatusOr<std::unique_ptr<DraftModel>> {
        return Model::Load(drafter_folder, target_folder, engine);
      });
}

// The autoregressive engine with a model of class Model.
template <typename Model>
absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeAutoregressive(const DrafterOptions& options,
                                                                  FeatureSource* features) {
  return MakeAutoregressiveEngine(
      options, features,
      [](const std::string& drafter_folder, const std::string& target_folder,
         const nn::EngineOptions& engine) -> absl::StatusOr<std::unique_ptr<NodeModel>> {
        return Model::Load(drafter_folder, target_folder, engine);
      });
}

constexpr DrafterKind kKinds[] = {
    {hub::ModelKind::kDflash, MakeBlock<DflashModel>, CheckDflash},
    {hub::ModelKind::kEagle, MakeAutoregressive<EagleModel>, CheckEagle},
    {hub::ModelKind::kParallelEagle, MakeAutoregressive<EagleModel>, CheckEagle},
    {hub::ModelKind::kSpecBlock, MakeAutoregressive<SpecBlockModel>, CheckSpecBlock},
    {hub::ModelKind::kMedusa, MakeAutoregressive<MedusaModel>, CheckMedusa},
    {hub::ModelKind::kTarget, MakeAutoregressive<AutoregressiveModel>, CheckAutoregressive},
};

}  // namespace

absl::StatusOr<const DrafterKind*> FindDrafterKind(const std::string& folder) {
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(folder));
  for (const DrafterKind& kind : kKinds) {
    if (kind.model == config.kind) return &kind;
  }
  return absl::UnimplementedError(
      absl::StrCat(folder, ": no engine drafts with a ", config.architecture));
}

}  // namespace bastion::drafter
