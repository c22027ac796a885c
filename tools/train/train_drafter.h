// The commands of bastion-train that train a drafter. A build compiles one of two files:
// train_drafter.cc, or absent_train_drafter.cc in a build without libtorch.
#ifndef BASTION_TOOLS_TRAIN_TRAIN_DRAFTER_H_
#define BASTION_TOOLS_TRAIN_TRAIN_DRAFTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"
#include "tools/train/models/drafter_shape.h"

namespace bastion::train {

// How long and how fast a drafter learns.
struct LearningOptions {
  int64_t steps = 0;                        // 0: `time` decides.
  absl::Duration time;                      // 0: `steps` decides.
  int texts = 16;                           // Texts of one step.
  int64_t pool_bytes = int64_t{512} << 20;  // Memory for the features of texts (TextBatches).
  int pool_uses = 8;                        // Steps that use a text before it leaves the pool.
  double map_rate = 0.02, vector_rate = 0.003;
  double decay_from = 0.4;
  double clip = 0;
  // Matrix products in bf16. nullopt: if the CPU has instructions for them.
  std::optional<bool> bf16_products;
  uint64_t seed = 1;
};

// What the judge measures.
struct JudgedPrompts {
  std::string file;    // Held-out prompts. Empty: no judge.
  int limit = 16;      // The first prompts of the file.
  int judgements = 5;  // How often, at equal distances.
};

struct TrainOptions {
  std::string kind;  // E.g. "dflash".
  std::string target, teacher, out;
  bool resume = false;
  absl::Duration save_every = absl::Minutes(3);  // How often the state for `resume` is written.
  DrafterShape shape = {};
  int draft_vocabulary = 0;  // How many tokens the drafter can predict, if it can choose. 0: all.
  LearningOptions learning = {};
  JudgedPrompts judged = {};
  nn::FormatNames formats = {};
  nn::DeviceChoice device = {};
};

// Trains a drafter and writes it to `out`. FAILED_PRECONDITION if another target wrote the teacher
// text. INVALID_ARGUMENT for an unknown kind or a shape that
// does not fit the target; UNIMPLEMENTED in a build without libtorch; the errors of
// TrainingRun::Run.
[[nodiscard]] absl::Status TrainDrafter(const TrainOptions& options);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_TRAIN_DRAFTER_H_
