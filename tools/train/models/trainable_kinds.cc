#include "tools/train/models/trainable_kinds.h"

#include "absl/strings/str_cat.h"
#include "tools/train/models/autoregressive.h"
#include "tools/train/models/dflash.h"
#include "tools/train/models/eagle.h"
#include "tools/train/models/medusa.h"
#include "tools/train/models/parallelspec.h"
#include "tools/train/models/specblock.h"

namespace bastion::train {
namespace {

using Drafter = absl::StatusOr<std::unique_ptr<TrainableDrafter>>;

template <typename Kind>
Drafter Make(const FrozenTarget& target, const DrafterShape& shape, uint64_t seed) {
  return Kind::Create(target, shape, seed);
}

Drafter MakeFirstDflash(const FrozenTarget& target, const DrafterShape& shape, uint64_t seed) {
  return TrainableDflash::Create(target, shape, seed, DflashVersion::kFirst);
}

Drafter MakeSecondDflash(const FrozenTarget& target, const DrafterShape& shape, uint64_t seed) {
  return TrainableDflash::Create(target, shape, seed, DflashVersion::kSecond);
}

struct Kind {
  const char* name;
  Drafter (*make)(const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);
};

constexpr Kind kKinds[] = {
    {"autoregressive", Make<TrainableAutoregressive>},
    {"dflash", MakeFirstDflash},
    {"dflash2", MakeSecondDflash},
    {"eagle3", Make<TrainableEagle>},
    {"medusa", Make<TrainableMedusa>},
    {"parallelspec", Make<TrainableParallelSpec>},
    {"specblock", Make<TrainableSpecBlock>},
};

}  // namespace

Drafter MakeTrainableDrafter(const std::string& name, const FrozenTarget& target,
                             const DrafterShape& shape, uint64_t seed) {
  std::string names;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.make(target, shape, seed);
    absl::StrAppend(&names, names.empty() ? "" : ", ", kind.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", name, "\" is no kind of drafter that can be trained; the kinds are: ", names));
}

}  // namespace bastion::train
